"""Where do hosts of a PyTorch program leave word for each other? In the store by which their process group has met.

It lies with the leader, and has no list of what is in it: what is below a folder here is called by hosts' numbers.
PyTorch gives a group's store out under a private name alone, which is used here and nowhere else.
"""

from __future__ import annotations

import sys
import time
from typing import Any

_ROOT = "prefect_tpu"
SHORTEST, LONGEST = 0.005, 0.05  # seconds between two looks of whoever waits


class TorchBoard:
    """See `Board`."""

    ends_with_leader = True

    def __init__(self, store: Any, host: int, hosts: int) -> None:
        self._store, self.host, self.hosts = store, host, hosts

    def put(self, name: str, text: str) -> None:
        self._store.set(f"{_ROOT}/{name}", text)

    def get(self, name: str) -> str | None:
        key = f"{_ROOT}/{name}"
        return bytes(self._store.get(key)).decode() if self._store.check([key]) else None

    def below(self, folder: str) -> dict[str, str]:
        found = {str(host): self.get(f"{folder}/{host}") for host in range(self.hosts)}
        return {host: text for host, text in found.items() if text is not None}

    def wait(self, name: str, seconds: float) -> str | None:
        """By looking again and again: whoever waits within the store keeps other threads from it."""
        until, pause = time.monotonic() + seconds, SHORTEST
        while (found := self.get(name)) is None and time.monotonic() < until:
            time.sleep(pause)
            pause = min(LONGEST, 1.5 * pause)
        return found


_opened: tuple[Any, TorchBoard] | None = None  # of which process group


def is_open() -> bool:
    """Whether the program's hosts have met over PyTorch; it is not loaded for the answer."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def opened() -> TorchBoard | None:
    """The board of a group that has met; None where it is this process alone."""
    global _opened
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    if dist.get_world_size() == 1:
        return None
    if _opened is None or _opened[0] is not dist.group.WORLD:
        store = distributed_c10d._get_default_store().clone()  # a connection of its own: the group waits in its own
        _opened = dist.group.WORLD, TorchBoard(store, dist.get_rank(), dist.get_world_size())
    return _opened[1]
