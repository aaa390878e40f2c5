"""When is a PyTorch program's state saved, and where does it start? As `checkpoints`, by PyTorch's own means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.training import torch_state
from prefect_tpu.infra.training.beside import Restored
from prefect_tpu.infra.training.fitting import Only
from prefect_tpu.infra.training.over_torch import OverTorch
from prefect_tpu.infra.training.store import Keeper
from prefect_tpu.infra.training.torch_position import HostPosition
from prefect_tpu.infra.training.torch_state import TorchState
from prefect_tpu.infra.training.torch_store import TorchStore


def torch_checkpoints(
    model: Any,
    optimizer: Any = None,
    *,
    more: Mapping[str, Any] | None = None,
    data: Any = None,
    every: float | None = None,
    steps: int | None = None,
    best: tuple[str, str, int] | None = None,
    keep: int | None = None,
    directory: Path | str | None = None,
    side: Any = None,
) -> TorchCheckpoints:
    """A block in which a PyTorch program is saved in time, before a preemption and at the end.

    Random numbers of Python, NumPy and PyTorch are saved for each host and go on where they were.

    Args:
        model: a module, also one that DistributedDataParallel, FSDP or Accelerate has wrapped.
        optimizer: its optimizer, or several in a list.
        more: name → whatever else has `state_dict()` and `load_state_dict()` and is equal on all hosts, such as a
            schedule of learning rates or a `GradScaler`.
        data: what has `state_dict()` and `load_state_dict()`, or `get_state()` and `set_state()`, and a position of its
            own on each host, as a StatefulDataLoader.
        every: seconds between two saves; by default the job's, 10 minutes. `math.inf` for none by time.
        steps, best, keep, directory, side: as of `prefect_tpu.checkpoints`.
    """
    kept = {} if more is None else dict(more)
    for name, each in kept.items():
        if not (hasattr(each, "state_dict") and hasattr(each, "load_state_dict")):
            raise UsageError(
                f"torch_checkpoints(more={{{name!r}: …}}) was given a {type(each).__name__}: give what has state_dict()"
                " and load_state_dict()."
            )
    optimizers = torch_state.optimizers(optimizer)
    torch_state.check_optimizers(model, optimizers)
    state = TorchState(model=model, optimizers=optimizers, more=kept)
    inner = _Saved(
        every=every, steps=steps, best=best, keep=keep, data=HostPosition(data), directory=directory, side=side
    )
    return TorchCheckpoints(state, inner)


class TorchCheckpoints:
    """See `torch_checkpoints`."""

    def __init__(self, state: TorchState, inner: OverTorch) -> None:
        self._state, self._inner = state, inner

    def __enter__(self) -> TorchCheckpoints:
        self._inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._inner.__exit__(kind, exc, tb)

    @property
    def restored(self) -> Restored | None:
        """Which checkpoint the state came from, and what lay beside it; None where nothing was restored."""
        return self._inner.restored

    @property
    def side(self) -> Any:
        """What lay beside the restored state, as `torch_checkpoints(side=…)` was given; None where nothing did."""
        return self._inner.side

    def restore(self, only: Only | None = None) -> int:
        """The step to go on with; model, optimizer and all else have what was saved. 0 where nothing was.

        Tensors keep the types and places that they have, also on another number of hosts. A job that was told to
        `start_from` another one has that one's state and 0 until it has saved one of its own.

        Args:
            only: which tensors of the model come from the checkpoint, while all else stays as it is: the name of a part
                or tensor (`"encoder.0"`), a list of names, or a function that says so of a tensor's name. What a run
                saves that restored so is restored whole.

        Raises:
            UsageError: something in the checkpoint does not fit, and the message names it; or the job to start from has
                none.
        """
        _, step = self._inner.restore(self._state, only)
        return step

    def save(self, step: int, /, **metrics: Any) -> None:
        """Save what the objects hold if it is time to; call it after each step, on every host.

        Args:
            step: that was finished.
            **metrics: numbers of this step, saved beside the state; the leader's value of the one of `best` counts.

        Raises:
            Preempted: this host or another one must leave; the step is saved.
        """
        self._inner.save(step, self._state, **metrics)


class _Saved(OverTorch):
    """By PyTorch's distributed checkpoint."""

    call = "torch_checkpoints"

    def _new_store(self, root: Storage, attempt: int) -> Keeper:
        return TorchStore(root, attempt, self._sealed)
