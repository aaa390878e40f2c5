"""How is something printed once, and an array of which this host holds a part?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, TextIO

from prefect_tpu.infra.training import torch_board
from prefect_tpu.infra.training.barrier import barrier
from prefect_tpu.infra.training.info import info

MEETING = 60.0  # seconds for all hosts to come to a `show` of whole arrays


def leader_print(*values: Any, sep: str = " ", end: str = "\n", file: TextIO | None = None) -> None:
    """Print on the leader only, at once. Nothing here waits for other hosts, so a condition may stand around it.

    Of an array that lies on several hosts, what this one holds is printed: see `show`.

    Args:
        *values: what to print.
        sep: between them.
        end: after them.
        file: where to; standard output by default.
    """
    if _is_leader():
        out = file or sys.stdout
        out.write(sep.join(map(_text, values)) + end)
        out.flush()


def show(value: Any, *, name: str = "", whole: bool = False) -> None:
    """Print an array, or each array of a tree, with its type, its shape and how it is laid out; on the leader only.

    Args:
        value: an array, or a tree of them.
        name: what it is called.
        whole: bring all of it to the leader. That is a collective: every host must call it, and one that does not is
            named after a minute. Otherwise only what this host holds is printed, and nothing waits.

    Raises:
        HostsMissing: with `whole`, some host did not call it in time.
        UsageError: with `whole`, the hosts have not met: call `join()` first.
    """
    if whole:
        barrier(f"show {name}".rstrip(), timeout=MEETING)
    import jax

    for path, leaf in jax.tree_util.tree_leaves_with_path(value):
        at = name + jax.tree_util.keystr(path)
        leader_print(f"{at}: {_whole(leaf) if whole else _text(leaf)}" if at else _whole(leaf) if whole else leaf)


def _is_leader() -> bool:
    jax = sys.modules.get("jax")
    if jax is not None and jax.distributed.is_initialized():
        return bool(jax.process_index() == 0)
    if torch_board.is_open():
        return bool(sys.modules["torch"].distributed.get_rank() == 0)
    return info().is_leader


def _is_spread(value: Any) -> bool:
    """Whether parts of it lie on other hosts alone."""
    return hasattr(value, "addressable_shards") and not (value.is_fully_addressable or value.is_fully_replicated)


def _text(value: Any) -> str:
    if not _is_spread(value):
        return str(value)
    held = (f"{_place(shard.index, value.shape)} = {shard.data}" for shard in value.addressable_shards)
    return f"{_kind(value)}, of which this host holds {'; '.join(held)}"


def _whole(value: Any) -> str:
    if not _is_spread(value):
        return str(value)
    from jax.experimental import multihost_utils

    return f"{_kind(value)} = {multihost_utils.process_allgather(value, tiled=True)}"


def _kind(value: Any) -> str:
    spec = getattr(value.sharding, "spec", None)
    layout = value.sharding if spec is None else tuple(spec)
    return f"{value.dtype}{list(value.shape)} over {len(value.sharding.device_set)} devices as {layout}"


def _place(index: Sequence[slice], shape: Sequence[int]) -> str:
    """`[0:2, 0:8]`: which part of the whole."""
    ranges = (part.indices(size) for part, size in zip(index, shape, strict=True))
    return f"[{', '.join(f'{start}:{stop}' for start, stop, _ in ranges)}]"
