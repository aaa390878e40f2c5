"""Does a PyTorch checkpoint fit the program, and how is it read? Names and shapes are compared before anything is."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.training import fitting, torch_on_tpus, torch_peers
from prefect_tpu.infra.training.fitting import Only
from prefect_tpu.infra.training.torch_state import TorchState, misfits, without_idle

_METADATA = ".metadata"  # PyTorch's own list of what a checkpoint holds


def read(folder: Path, state: TorchState, only: Only | None, point: RestorePoint) -> None:
    """Give the objects of the state what the checkpoint has, or of the model's tensors those of `only`.

    A tensor keeps the type and the place it has here, and may be spread over another number of hosts.

    Raises:
        UsageError: it was not written by torch_checkpoints, or something in it does not fit; the message names it.
    """
    import torch.distributed.checkpoint as dcp

    if not (folder / _METADATA).exists():
        raise UsageError(
            f"The checkpoint of step {point.step} (attempt {point.attempt}) was not written by torch_checkpoints():"
            f" {folder} has no {_METADATA}. Read it with what wrote it, or start under another name."
        )
    wanted = without_idle(state.taken(), _names(folder)) if only is None else state.parts(only)
    try:
        with alone_is_meant():
            dcp.load(
                wanted,
                checkpoint_id=folder,
                planner=_planner(point, all_of_it=only is None),
                process_group=torch_peers.saving_group(),
            )
    except BaseException as exc:
        raise cause(exc) from None
    if only is None:
        state.put(wanted)


def _names(folder: Path) -> Collection[str]:
    """Of all that lies in a checkpoint."""
    from torch.distributed.checkpoint import FileSystemReader

    names: Collection[str] = FileSystemReader(folder).read_metadata().state_dict_metadata
    return names


def cause(error: BaseException) -> BaseException:
    """What a host raised, where PyTorch has wrapped it in its account of all hosts."""
    failures = getattr(error, "failures", None)
    if type(error).__name__ != "CheckpointException" or not failures:
        return error
    first: BaseException = failures[min(failures)][0]
    return cause(first)


@contextmanager
def alone_is_meant() -> Iterator[None]:
    """A program that has not joined is alone on purpose: PyTorch need not warn of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield


def _planner(point: RestorePoint, *, all_of_it: bool) -> Any:
    """PyTorch's own, which compares first."""
    from torch.distributed.checkpoint import DefaultLoadPlanner

    base: Any = torch_on_tpus.planners().get("load", DefaultLoadPlanner)

    class Comparing(base):  # type: ignore[misc]
        def set_up_planner(self, state_dict: Any, metadata: Any = None, is_coordinator: bool = False) -> None:
            super().set_up_planner(state_dict, metadata, is_coordinator)
            found = {name: _size(each) for name, each in metadata.state_dict_metadata.items()}
            wrong = misfits({name: _size(each) for name, each in self.state_dict.items()}, found, all_of_it=all_of_it)
            if wrong:
                raise UsageError(
                    f"The checkpoint of step {point.step} (attempt {point.attempt}) does not fit this program:"
                    f" {fitting.shortened(wrong)}. Give a model and optimizers of the same structure, name"
                    " the parts that are to come from it (only=…), or start under another name."
                )

    return Comparing()


def _size(each: Any) -> tuple[int, ...] | None:
    """Of a tensor here or in the list of a checkpoint; both call it so."""
    size = getattr(each, "size", None)
    size = size() if callable(size) else size
    return tuple(size) if isinstance(size, tuple) else None  # an array of NumPy has a number there
