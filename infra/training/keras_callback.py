"""What happens at each step of `model.fit`? It is reported, saved when due, and left out where it was done before.

It happens around the function that does the step, not in `on_train_batch_end`: a callback that has that one makes Keras
wait for each step, and bring all variables up to date for it.

Where a metric decides, the last step of an epoch is saved when its epoch ends: what it came to is known then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any

import keras  # type: ignore[import-untyped]

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.training import agreement, cadence, keras_model
from prefect_tpu.infra.training.checkpoints import Checkpoints
from prefect_tpu.infra.training.data_position import DataIterator
from prefect_tpu.infra.training.keras_place import Places
from prefect_tpu.infra.training.reading import Reader
from prefect_tpu.infra.training.report import reports
from prefect_tpu.infra.training.store import Keeper, Store

logger = logging.getLogger(__name__)


class KerasCheckpoints(keras.callbacks.Callback):  # type: ignore[misc]
    """See `keras_checkpoints`. step: the one to go on with; how many there were so far."""

    step = 0

    def __init__(self, model: Any, data: DataIterator | None, options: Mapping[str, Any]) -> None:
        super().__init__()
        keras_model.check(model)
        self._trained, self._options = model, options
        rule = cadence.rule(_Block.call, options["best"], options["keep"])
        self._best = rule.best.metric if rule is not None and rule.best is not None else None
        self._measured: Mapping[str, float] = {}  # what the last epoch came to, where a metric decides
        self._places = Places(data)
        self._stack: ExitStack | None = None
        self._has_block = False  # of the program's own; else it is that of one `fit`
        self._train_step: Any = None  # Keras's own
        self._batch = self._left_out = 0  # the batch at hand, and how many of the epoch were done before
        self._is_new = False  # whether a step was done that may not be saved
        self._has_said = False  # that an epoch ended without the metric
        self._raised: BaseException | None = None

    def __enter__(self) -> KerasCheckpoints:
        self._open()
        self._has_block = True
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._step_aside()
        stack, self._stack, self._has_block = self._stack, None, False
        if stack is not None:
            stack.__exit__(kind, exc, tb)

    def _open(self) -> None:
        with ExitStack() as stack:
            self._block: Checkpoints = stack.enter_context(_Block(data=self._places, **self._options))
            self.step = keras_model.restore(self._trained, self._block)
            self._shapes = keras_model.shapes(self._trained)
            self._stack = stack.pop_all()

    # What Keras calls, in this order.

    def on_train_begin(self, logs: Any = None) -> None:
        if self._model is not self._trained:
            raise UsageError("keras_checkpoints() was given another model than the one that fit trains: give it that.")
        if self._best is not None and self.params["steps"] is None:
            raise UsageError(
                f"keras_checkpoints(best=({self._best!r}, …)) goes by what an epoch came to, and Keras does not know"
                " how many steps one of this data has: say so by fit(steps_per_epoch=…)."
            )
        if self._stack is None:
            self._open()
        keras_model.check_shapes(self._trained, self._shapes)
        epochs = self.params["epochs"]
        begins = self._places.begin_fit(epochs)
        if begins is not None:
            self._trained._initial_epoch = begins  # as Keras's own BackupAndRestore does
        if begins == epochs:
            logger.warning(
                "Nothing is left to do for this fit: its %s epochs were done by step %s, which is saved. Another"
                " fit of the same model belongs into the same block of keras_checkpoints().",
                epochs,
                self.step - 1,
            )
        self._step_aside()  # a `fit` that failed has left it as it was
        self._train_step, self._trained.train_function = self._trained.train_function, self._do_step

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._trained._initial_epoch = None
        place = self._places.begin(epoch)
        self._left_out = place.batches
        keras_model.assign_metrics(self._trained, place.metrics)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._leave_if_raised()
        self._batch = batch

    def on_test_begin(self, logs: Any = None) -> None:
        self._leave_if_raised()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._leave_if_raised()
        self._places.end(epoch + 1)
        if self._best is not None and self.step > 0:
            self._measured = _numbers(logs or {})
            self._check_measured(self._best, epoch)
            self._save(keras_model.values(self._trained), self._measured)
            self._leave_if_raised()

    def on_train_end(self, logs: Any = None) -> None:
        self._step_aside()
        self._places.end_fit(self.params["epochs"])
        if self._is_new:  # a validation may have taken the arrays of the last step
            self._is_new = False
            self._save(keras_model.values(self._trained), self._measured)
            self._leave_if_raised()
        if not self._has_block:
            self.__exit__(None, None, None)

    # Around Keras's own step.

    def _do_step(self, state: Any, batches: Iterator[Any]) -> Any:
        at_once = self._trained.steps_per_execution
        if self._batch < self._left_out:
            if self._places.data is None:
                for _ in zip(range(at_once), batches, strict=False):
                    pass
            return dict(self._places.now.logs), state
        logs, state = self._train_step(state, batches)
        place = self._places.now
        place.batches, place.logs, place.metrics = self._batch + at_once, _numbers(logs), state[3]
        self.step += at_once
        self._is_new = True
        self._catch(partial(reports().add, self.step - 1, place.logs))  # a metric may have any name
        if self._best is None or place.batches < self.params["steps"]:
            self._save(keras_model.tree(*state[:3]), {})
        return logs, state

    def _save(self, values: Any, metrics: Mapping[str, float]) -> None:
        self._catch(partial(self._block.save, self.step - 1, values, **metrics))

    def _catch(self, call: Callable[[], None]) -> None:
        """What is raised waits until Keras has taken the step over: it puts its state in order."""
        if self._raised is not None:
            return
        try:
            call()
        except BaseException as exc:
            self._raised = exc

    def _leave_if_raised(self) -> None:
        if self._raised is None:
            return
        raised, self._raised = self._raised, None
        if not self._has_block:
            self.__exit__(type(raised), raised, raised.__traceback__)
        raise raised

    def _check_measured(self, best: str, epoch: int) -> None:
        if best not in self._measured and not self._has_said and agreement.is_leader():
            told = ", ".join(self._measured) or "nothing"
            logger.warning("Epoch %s ended without %r, by which best=… goes: Keras told of %s.", epoch, best, told)
            self._has_said = True

    def _step_aside(self) -> None:
        if self._trained.train_function == self._do_step:  # the program may have compiled it anew
            self._trained.train_function = self._train_step


class _Block(Checkpoints):
    """In the words of whoever trains by `fit`."""

    call = "keras_checkpoints"

    def _new_store(self, root: Storage, attempt: int) -> Keeper:
        reader = Reader(
            call=self.call,
            given="the model given to keras_checkpoints()",
            advice="Give a model and an optimizer of the same structure and shapes, or start under another name.",
        )
        return Store(root, attempt, self._sealed, reader)


def _numbers(logs: Any) -> dict[str, Any]:
    return {name: value for name, value in logs.items() if getattr(value, "ndim", 0) == 0}
