"""How do the hosts of a PyTorch program speak to each other? Over gloo, in a group that the program has no part in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_groups: tuple[Any, Any, Any] | None = None  # (the program's group, ours, the one for saving)


def place() -> tuple[int, int]:
    import torch.distributed as dist

    return (dist.get_rank(), dist.get_world_size()) if _is_joined() else (0, 1)


def from_leader(values: Sequence[int]) -> tuple[int, ...]:
    import torch
    import torch.distributed as dist

    agreed = torch.tensor(values, dtype=torch.int64)
    dist.broadcast(agreed, src=0, group=group())
    return tuple(int(value) for value in agreed)


def from_all(text: str) -> list[str]:
    import torch.distributed as dist

    found: list[Any] = [None] * place()[1]
    dist.all_gather_object(found, text, group=group())
    return found


def meet(place: str) -> None:
    import torch.distributed as dist

    dist.barrier(group=group())


def group() -> Any:
    """Ours, on the hosts' CPUs whatever the program's is on. Its first use is a collective; None for a host alone."""
    return _own()[0]


def saving_group() -> Any:
    """For a thread that saves meanwhile: two threads in one group would take each other's words."""
    return _own()[1]


def _own() -> tuple[Any, Any]:
    global _groups
    if not _is_joined():
        return None, None
    import torch.distributed as dist

    program = dist.group.WORLD
    if _groups is None or _groups[0] is not program:  # a program may leave a group and make another one
        _groups = program, dist.new_group(backend="gloo"), dist.new_group(backend="gloo")
    return _groups[1], _groups[2]


def _is_joined() -> bool:
    import torch.distributed as dist

    return bool(dist.is_available() and dist.is_initialized())
