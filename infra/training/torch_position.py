"""Where was each host of a PyTorch program in its data and its random numbers? Stored with a step, host by host."""

from __future__ import annotations

import base64
from typing import Any

from prefect_tpu.infra.training import agreement, chances, data_position
from prefect_tpu.infra.training.data_position import DataIterator


class HostPosition:
    """A `DataIterator` of what a host has for itself: the generators of random numbers, and its data where given."""

    def __init__(self, data: DataIterator | None) -> None:
        data_position.check(data)
        self._data = data

    def get_state(self) -> dict[str, Any]:
        own = {} if self._data is None else {"data": data_position.own_position(self._data)}
        return {"hosts": agreement.peers(), "random": _random(), **own}

    def set_state(self, state: dict[str, Any]) -> None:
        """On another number of hosts random numbers go on as the program has set them: all would have the leader's."""
        if state["hosts"] == agreement.peers():
            _set_random(state["random"])
        if self._data is not None and "data" in state:
            data_position.go_to(self._data, state["data"])


def _random() -> dict[str, Any]:
    """Of Python, NumPy where the program has it, and PyTorch, on the CPU and on this process's GPU."""
    import torch

    found = {**chances.taken(), "torch": _bytes(torch.get_rng_state())}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = _bytes(torch.cuda.get_rng_state())
    return found


def _set_random(found: dict[str, Any]) -> None:
    import torch

    chances.put_back(found)
    torch.set_rng_state(_tensor(found["torch"]))
    if "cuda" in found and torch.cuda.is_available():
        torch.cuda.set_rng_state(_tensor(found["cuda"]))


def _bytes(tensor: Any) -> str:
    return base64.b64encode(bytes(tensor.tolist())).decode()


def _tensor(text: str) -> Any:
    import torch

    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
