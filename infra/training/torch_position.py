"""Where was each host of a PyTorch program in its data and its random numbers? Stored with a step, host by host."""

from __future__ import annotations

import base64
import json
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import agreement, chances


class HostPosition:
    """A `DataIterator` of what a host has for itself: the generators of random numbers, and its data where given.

    data: has `get_state()` and `set_state()`, or `state_dict()` and `load_state_dict()`.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        if data is not None and _methods(data) is None:
            raise UsageError(
                f"torch_checkpoints(data=…) was given a {type(data).__name__}, whose position nobody can ask for: give"
                " what has get_state() and set_state(), or state_dict() and load_state_dict()."
            )

    def get_state(self) -> dict[str, Any]:
        return {"hosts": agreement.peers(), "random": _random(), **({} if self._data is None else self._position())}

    def set_state(self, state: dict[str, Any]) -> None:
        """On another number of hosts random numbers go on as the program has set them: all would have the leader's."""
        if state["hosts"] == agreement.peers():
            _set_random(state["random"])
        if self._data is not None and "data" in state:
            _, put = _methods(self._data) or ("", "")
            getattr(self._data, put)(_unpacked(state["data"]))

    def _position(self) -> dict[str, Any]:
        take, _ = _methods(self._data) or ("", "")
        position = getattr(self._data, take)()
        packed = {"base64": _text(position)} if isinstance(position, bytes) else {"json": position}
        try:
            is_kept = json.loads(json.dumps(packed)) == packed
        except TypeError:
            is_kept = False
        if not is_kept:
            raise UsageError(
                f"The position of {type(self._data).__name__} cannot be saved: {take}() returns what is neither bytes"
                " nor JSON (text, finite numbers, lists, and dicts whose keys are text)."
            )
        return {"data": packed}


def _methods(data: Any) -> tuple[str, str] | None:
    pairs = (("get_state", "set_state"), ("state_dict", "load_state_dict"))
    return next((pair for pair in pairs if all(hasattr(data, name) for name in pair)), None)


def _unpacked(packed: dict[str, Any]) -> Any:
    return base64.b64decode(packed["base64"]) if "base64" in packed else packed["json"]


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
    return _text(bytes(tensor.tolist()))


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _tensor(text: str) -> Any:
    import torch

    return torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
