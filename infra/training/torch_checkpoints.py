"""When is a PyTorch program's state saved, and where does it start? As `checkpoints`, by PyTorch's own means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.training import agreement, torch_peers, torch_state
from prefect_tpu.infra.training.checkpoints import Checkpoints, tell_saved
from prefect_tpu.infra.training.preemption import Notice, OwnNotice
from prefect_tpu.infra.training.store import Keeper
from prefect_tpu.infra.training.torch_notice import TorchNotice
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
    directory: Path | str | None = None,
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
        every: seconds between two saves; by default the job's, 10 minutes.
        directory: where checkpoints lie outside a job, a folder or a URL of one in a bucket; `checkpoints` by default.
            Inside one, the job decides.
    """
    kept = {} if more is None else dict(more)
    for name, each in kept.items():
        if not (hasattr(each, "state_dict") and hasattr(each, "load_state_dict")):
            raise UsageError(
                f"torch_checkpoints(more={{{name!r}: …}}) was given a {type(each).__name__}: give what has state_dict()"
                " and load_state_dict()."
            )
    state = TorchState(model=model, optimizers=torch_state.optimizers(optimizer), more=kept)
    return TorchCheckpoints(state, _OverTorch(every=every, data=HostPosition(data), directory=directory))


class TorchCheckpoints:
    """See `torch_checkpoints`."""

    def __init__(self, state: TorchState, inner: _OverTorch) -> None:
        self._state, self._inner = state, inner

    def __enter__(self) -> TorchCheckpoints:
        self._inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._inner.__exit__(kind, exc, tb)

    def restore(self, only: str | Sequence[str] = ()) -> int:
        """The step to go on with; model, optimizer and all else have what was saved. 0 where nothing was.

        Tensors keep the types and places that they have, also on another number of hosts. A job that was told to
        `start_from` another one has that one's state and 0 until it has saved one of its own.

        Args:
            only: names of the model's parts, such as `"encoder"`: of the job to start from these are taken, and all
                else stays as given. It has no part in resuming, which takes everything.

        Raises:
            UsageError: something in the checkpoint does not fit, and the message names it; or the job to start from has
                none.
        """
        parts = (only,) if isinstance(only, str) else tuple(only)
        _, step = self._inner.restore(replace(self._state, only=parts))
        return step

    def save(self, step: int) -> None:
        """Save what the objects hold if it is time to; call it after each step, on every host.

        Raises:
            Preempted: this host or another one must leave; the step is saved.
        """
        self._inner.save(step, self._state)


class _OverTorch(Checkpoints):
    """Hosts agree over gloo, and PyTorch writes."""

    def __enter__(self) -> Checkpoints:
        agreement.speak_over(torch_peers)
        return super().__enter__()

    def _new_notice(self) -> Notice:
        return TorchNotice() if agreement.peers() > 1 else OwnNotice()

    def _new_store(self, root: Storage, attempt: int) -> Keeper:
        return TorchStore(root, attempt, tell_saved)

    def _is_there(self, state: Any) -> bool:
        return True
