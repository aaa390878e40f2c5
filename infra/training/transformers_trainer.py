"""When is what a transformers.Trainer trains saved, and where does it go on? It writes, we say when and where to."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
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
    best: tuple[str, str, int] | None = None,
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
        best: as of `prefect_tpu.checkpoints`, by what an evaluation of the Trainer's own comes to, such as
            `("eval_loss", "min", 3)`.
        steps, keep, directory, side: as of `prefect_tpu.checkpoints`.

    Raises:
        UsageError: the Trainer is told to load the best model at the end, or to save no more than the best, or the
            model alone; or `best` is given and the Trainer never evaluates.
    """
    arguments = trainer.args
    refused = {
        "load_best_model_at_end": bool(arguments.load_best_model_at_end),
        "save_strategy='best'": _word(arguments.save_strategy) == "best",
        "save_only_model": bool(arguments.save_only_model),
        "enable_jit_checkpoint": bool(getattr(arguments, "enable_jit_checkpoint", False)),
    }
    for name, is_asked in refused.items():
        if is_asked:
            raise UsageError(
                f"transformers_trainer() was given a Trainer with {name}, which needs checkpoints to stay where it puts"
                " them, or cannot be resumed from: leave it out. The newest checkpoint of the job is its result, and"
                " transformers_trainer(best=('eval_loss', 'min', 1)) keeps the best one beside it."
            )
    evaluates = _word(arguments.eval_strategy)
    if best is not None and evaluates == "no":
        raise UsageError(
            f"transformers_trainer(best={best!r}) goes by what the Trainer's evaluations come to, and it makes none:"
            " give its TrainingArguments an eval_strategy, 'steps' or 'epoch'."
        )
    inner = _OfTrainer(every=every, steps=steps, best=best, keep=keep, data=None, directory=directory, side=side)
    inner.waits_for_epochs = best is not None and evaluates == "epoch"
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
    """Says when the Trainer shall save; its "state" is the folder into which the Trainer has.

    waits_for_epochs: whether the last step of an epoch is saved after the evaluation at the epoch's end, and with what
        that comes to.
    """

    call = "transformers_trainer"
    waits_for_epochs = False
    _must_leave = False
    _metrics: Mapping[str, float] = {}  # of the evaluation of the step at hand

    def _new_store(self, root: Storage, attempt: int) -> Keeper:
        self.keeper = TrainerStore(root, attempt, self._sealed)
        return self.keeper

    def wants(self, step: int) -> bool:
        """Whether to save after this step, on all hosts: it is time, or a host must leave."""
        if self._seen is not None and step < self._seen:
            raise UsageError(
                f"The Trainer came to step {step} after step {self._seen}: a block of transformers_trainer() is for one"
                " train(). Make the next one a job of its own, with start_from."
            )
        step = self._checked(step)
        self._metrics = {}
        is_due = self._cadence.is_due(step - 1, {})  # it counts steps from 0
        self._must_leave = self._notice.has_come(self._cadence.calls)
        return is_due or self._must_leave

    @property
    def may_wait(self) -> bool:
        """Whether a save of the step that ends an epoch waits for the evaluation: not where a host must leave."""
        return self.waits_for_epochs and not self._must_leave

    def is_best(self, metrics: Mapping[str, Any]) -> bool:
        """Whether to save the step that was just evaluated, on all hosts."""
        found = _numbers(metrics)
        self._metrics = {**self._metrics, **found}  # there is an evaluation for each set of data
        return self._cadence.best.is_due(found)

    def take(self, step: int, folder: Path) -> None:
        """The Trainer has written this step into a folder. Raises `Preempted` where a host must leave."""
        if step != self._written:
            self._last = Unsaved(step, folder, self._metrics)
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
            self.is_training = self.waits = False  # whether a save waits for the end of the epoch

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.is_training = True

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.is_training = False

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            self.metrics = _numbers(logs or {})

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.give_back(args)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            reports().add(state.global_step, self.metrics)
            if inner.wants(state.global_step) or state.global_step >= state.max_steps:
                control.should_save = True
            self.waits = control.should_save and inner.may_wait and _ends_epoch(state, control)
            control.should_save = control.should_save and not self.waits
            self.send_to_us(args, control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_save, self.waits = control.should_save or self.waits, False
            self.send_to_us(args, control)

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
            if self.is_training and inner.is_best(metrics or {}):
                control.should_save = True
                self.send_to_us(args, control)

        def send_to_us(self, args: Any, control: Any) -> None:
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


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """What of it is a number."""
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def _ends_epoch(state: Any, control: Any) -> bool:
    """Whether the Trainer calls the step that it has done the last one of an epoch, as far as it is known by then."""
    is_last = control.should_training_stop or control.should_epoch_stop or state.global_step >= state.max_steps
    return is_last or math.isclose(state.epoch, round(state.epoch), abs_tol=1e-9)


def _word(strategy: Any) -> str:
    return str(getattr(strategy, "value", strategy))


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
