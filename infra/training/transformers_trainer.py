"""When is what a transformers.Trainer trains saved, and where does it go on? It writes, we say when and where to."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType
from typing import Any

from prefect_tpu.infra.errors import Preempted, UsageError
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.training import agreement
from prefect_tpu.infra.training.checkpoints import Unsaved
from prefect_tpu.infra.training.over_torch import OverTorch
from prefect_tpu.infra.training.report import reports
from prefect_tpu.infra.training.store import Keeper
from prefect_tpu.infra.training.trainer_store import TrainerStore


def transformers_trainer(
    trainer: Any,
    *,
    every: float | None = None,
    steps: int | None = None,
    keep: int | None = None,
    directory: Path | str | None = None,
    side: Any = None,
) -> TrainerBlock:
    """A block in which a transformers.Trainer trains: it is saved in time, before a preemption and at the end.

    What the block gives is what to resume from, a folder or None:

        with prefect_tpu.transformers_trainer(trainer) as checkpoint:
            trainer.train(resume_from_checkpoint=checkpoint)

    Each step is reported, with the newest numbers that the Trainer logged; steps are counted as it counts them, from 1.
    Saves of its own `save_strategy` go on beside ours and count as much; `save_strategy="no"` leaves it to us. A job
    that was told to `start_from` another one has that one's model, and step 0.

    Args:
        trainer: as the program made it, also of a class of its own.
        every: seconds between two saves; by default the job's, 10 minutes.
        steps, keep, directory, side: as of `prefect_tpu.checkpoints`.

    Raises:
        UsageError: the Trainer is told to load the best model at the end, or to save no more than the best, or the
            model alone.
    """
    arguments = trainer.args
    refused = {
        "load_best_model_at_end": bool(arguments.load_best_model_at_end),
        "save_strategy='best'": str(getattr(arguments.save_strategy, "value", arguments.save_strategy)) == "best",
        "save_only_model": bool(arguments.save_only_model),
        "enable_jit_checkpoint": bool(getattr(arguments, "enable_jit_checkpoint", False)),
    }
    for name, is_asked in refused.items():
        if is_asked:
            raise UsageError(
                f"transformers_trainer() was given a Trainer with {name}, which needs checkpoints to stay where it puts"
                " them, or cannot be resumed from: leave it out. The newest checkpoint of the job is its result, and"
                " prefect_tpu.report() may tell which step was the best."
            )
    inner = _OfTrainer(every=every, steps=steps, best=None, keep=keep, data=None, directory=directory, side=side)
    return TrainerBlock(trainer, inner)


class TrainerBlock:
    """See `transformers_trainer`."""

    def __init__(self, trainer: Any, inner: _OfTrainer) -> None:
        self._trainer, self._inner = trainer, inner

    def __enter__(self) -> str | None:
        self._inner.__enter__()
        try:
            state: str | None = None
            folder, step = self._inner.restore(state)
            if folder is not None and step == 0:
                _start_with(self._trainer.model, folder)
            _allow_numbered_cpus()
            self._callback = _callback(self._inner)
            self._trainer.add_callback(self._callback)
        except BaseException as exc:
            self._inner.__exit__(type(exc), exc, exc.__traceback__)
            raise
        return folder if step else None

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._callback.give_back(self._trainer.args)  # a save that failed has not
        self._trainer.remove_callback(self._callback)
        self._inner.__exit__(kind, exc, tb)


class _OfTrainer(OverTorch):
    """Says when the Trainer shall save; its "state" is the folder into which the Trainer has."""

    _must_leave = False

    def _new_store(self, root: Storage, attempt: int) -> Keeper:
        self.keeper = TrainerStore(root, attempt, self._sealed)
        return self.keeper

    def wants(self, step: int) -> bool:
        """Whether to save after this step, on all hosts: it is time, or a host must leave."""
        step = self._checked(step)
        is_due = self._cadence.is_due(step - 1, {})  # it counts steps from 0
        self._must_leave = self._notice.has_come(self._cadence.calls)
        return is_due or self._must_leave

    def take(self, step: int, folder: Path) -> None:
        """The Trainer has written this step into a folder. Raises `Preempted` where a host must leave."""
        if step != self._written:
            self._last = Unsaved(step, folder, {})
            self._write()
        elif agreement.is_leader():  # its own strategy saved a step that we had
            shutil.rmtree(folder, ignore_errors=True)
        if self._must_leave:
            self._wait_for_all()
            raise Preempted(step)


def _callback(inner: _OfTrainer) -> Any:
    from transformers import TrainerCallback

    class Saving(TrainerCallback):  # type: ignore[misc]
        """Asks after each step; while the Trainer saves, its output is a folder of ours."""

        def __init__(self) -> None:
            self.metrics: dict[str, float] = {}
            self.own: str | None = None

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            self.metrics = {
                name: float(value) for name, value in (logs or {}).items() if isinstance(value, int | float)
            }

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.give_back(args)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            reports().add(state.global_step, self.metrics)
            if inner.wants(state.global_step) or state.global_step >= state.max_steps:
                control.should_save = True
            self.on_epoch_end(args, state, control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if control.should_save and self.own is None:
                self.own, args.output_dir = args.output_dir, str(inner.keeper.work)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            self.give_back(args)
            inner.take(state.global_step, folder)

        def give_back(self, args: Any) -> None:
            if self.own is not None:
                args.output_dir, self.own = self.own, None

    return Saving()


def _allow_numbered_cpus() -> None:
    """A Trainer on several hosts without GPUs reads its optimizer onto `cpu:0`, a place that PyTorch does not know."""
    import torch

    if torch.cuda.is_available():
        return

    def as_it_is(storage: Any, location: str) -> Any:
        return storage if location.startswith("cpu:") else None

    torch.serialization.register_package(100, lambda _: None, as_it_is)


def _start_with(model: Any, folder: str) -> None:
    """Another job's model, without its optimizer and its place in the data."""
    try:
        model.load_state_dict(type(model).from_pretrained(folder).state_dict())
    except (AttributeError, OSError, RuntimeError, ValueError) as exc:
        raise UsageError(
            f"The model of {folder} cannot be given to a {type(model).__name__}: {exc}. Start from a job that trained a"
            " model of the same kind and sizes."
        ) from exc
