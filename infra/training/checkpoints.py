"""When is a state saved, and where does a program start? Known from the job; all hosts agree."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from prefect_tpu.infra import retention
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import PlatformError, Preempted, UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.training import agreement, beside, cadence, data_position, leaves, places
from prefect_tpu.infra.training.beside import Restored
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.data_position import DataIterator
from prefect_tpu.infra.training.fitting import Only
from prefect_tpu.infra.training.preemption import AgreedNotice, Notice, OwnNotice
from prefect_tpu.infra.training.progress import progress
from prefect_tpu.infra.training.report import reports, whole
from prefect_tpu.infra.training.store import Keeper, Store

EVERY = 600.0  # seconds between two saves outside a job
DIRECTORY = "checkpoints"  # where they lie outside a job

State = TypeVar("State")
logger = logging.getLogger(__name__)


def checkpoints(
    every: float | None = None,
    *,
    steps: int | None = None,
    best: tuple[str, str, int] | None = None,
    keep: int | None = None,
    data: DataIterator | None = None,
    directory: Path | str | None = None,
    side: Any = None,
) -> Checkpoints:
    """A block in which the program's state is saved in time, before a preemption and at the end.

    Args:
        every: seconds between two saves; by default the job's, 10 minutes. `math.inf` for none by time.
        steps: beside that, a save after each so many steps: with 100, after step 99, 199 and so on.
        best: `("accuracy", "max", 3)`: what is given to `save` as `accuracy` decides too. A step that is among the best
            three so far is saved at once, and the best three stay beside the newest; `"min"` for a loss.
        keep: how many of the newest stay; 3 by default in a job, and where `best` is given. Outside a job all stay
            where neither is given; where one is, the directory is for one run at a time.
        data: an iterator with `get_state()` and `set_state()`, whose position is saved and restored too.
        directory: where checkpoints lie outside a job, a folder or a URL of one in a bucket; `checkpoints` by default.
            Inside one, the job decides. What cannot be written can be restored from.
        side: JSON that is saved beside the state, such as the program's configuration, as it is when a save begins.
    """
    return Checkpoints(every=every, steps=steps, best=best, keep=keep, data=data, directory=directory, side=side)


class Unsaved(NamedTuple):
    step: int
    state: Any
    metrics: Mapping[str, Any]


class Checkpoints:
    """See `checkpoints`.

    restored: which checkpoint the state came from, and what lay beside it; None before `restore`, and where nothing was
        saved.
    """

    call = "checkpoints"  # what the program wrote, for what it is refused

    def __init__(
        self,
        *,
        every: float | None,
        steps: int | None,
        best: tuple[str, str, int] | None,
        keep: int | None,
        data: DataIterator | None,
        directory: Path | str | None,
        side: Any,
    ) -> None:
        cadence.check_asked(self.call, every, steps)
        self._every, self._steps, self._data, self._side = every, steps, data, side
        self._rule = cadence.rule(self.call, best, keep)
        beside.said(self.call, side)
        self._directory = places.absolute(os.fspath(directory or DIRECTORY))
        self._last: Unsaved | None = None  # the newest state that is not saved
        self._seen: int | None = None
        self._written: int | None = None
        self._saves = 0
        self._is_partly = self._is_open = False
        self.restored: Restored | None = None

    def __enter__(self) -> Checkpoints:
        data_position.check(self._data)  # now, rather than at the first save
        self._notice = self._new_notice()
        self._notice.begin()  # first: a notice that comes while Orbax is loaded must be heard too
        try:
            self._open()
        except BaseException:
            self._notice.end()
            raise
        self._is_open = True
        return self

    # What another framework does in its own way.

    def _new_notice(self) -> Notice:
        return AgreedNotice() if agreement.peers() > 1 else OwnNotice()

    def _new_store(self, root: Storage, attempt: int) -> Keeper:
        return Store(root, attempt, self._sealed)

    def _is_there(self, state: Any) -> bool:
        return leaves.are_there(state)

    def _saved_on(self, state: Any) -> dict[str, Any]:
        return beside.on_jax(state)

    def _open(self) -> None:
        here = context()
        self._place = places.in_job(here, self.call) if here is not None else places.outside(self._directory)
        # In a job the launcher does.
        self._prunes = here is None and self._rule is not None and self._place.attempt > 0
        if self._prunes and agreement.is_leader():
            self._prune()  # what an earlier run was killed at
        self._store = self._new_store(self._place.root, self._place.attempt)
        every = self._every or (here.plan.checkpoint_every if here is not None else EVERY)
        self._cadence = cadence.agreed(self._place.root, every, self._steps, self._rule)

    @property
    def side(self) -> Any:
        """What lay beside the restored state, as `checkpoints(side=…)` was given; None where nothing did."""
        return self.restored.side if self.restored is not None else None

    def restore(self, state: State, only: Only | None = None) -> tuple[State, int]:
        """(the saved state, the step to go on with); the given state and 0 where nothing was saved.

        The saved state is placed like the given one, also on another number of devices, and has its types: a warning
        names the leaves whose values a type rounds. A job that was told to `start_from` another one has that one's
        state and 0 until it has saved one of its own.

        Args:
            state: of the structure and shapes that were saved.
            only: the leaves that come from the checkpoint, while the others stay as given: the name of a leaf or of
                what is above it (`"params/encoder"`), a list of names, or a function that says so of a leaf's name. The
                checkpoint may have other leaves besides. What a run saves that restored so is restored whole: after a
                preemption it goes on with all that it has trained.

        Raises:
            UsageError: a leaf does not fit, each by its name; or the job to start from has no checkpoint.
        """
        self._check_open("restore()")
        self._is_partly = self._is_partly or only is not None
        here = context()
        if self._place.start is not None:
            return self._resumed(self._place.start, state, only)
        if here is not None and here.plan.start_from:
            return self._given(here.plan.start_from, state, only), 0
        return state, 0

    def _resumed(self, point: RestorePoint, state: State, only: Only | None) -> tuple[State, int]:
        sealed = self._store.sealed(point)
        if sealed.get(beside.PARTLY):
            only = None
        restored, stored = self._store.read(point, state, only)
        self.restored = beside.restored(point, sealed)
        if self._data is not None and stored is not None and only is None:
            data_position.set_position(self._data, stored, *agreement.place())
        progress().update(saved_step=point.step)
        progress().event(Event.RESTORED, step=point.step, attempt=point.attempt)
        self._cadence.begin_after(point.step)
        return restored, point.step + 1

    def _given(self, place: str, state: State, only: Only | None) -> State:
        """The model of the job that this one was told to start with."""
        root, point = places.start_of(place)
        sealed = self._store.sealed(point, root)
        given: State = self._store.read(point, state, only, root)[0]
        self.restored = beside.restored(point, sealed)
        progress().event(Event.RESTORED, step=point.step, attempt=point.attempt, start_from=place)
        return given

    def save(self, step: int, state: Any, /, **metrics: Any) -> None:
        """Save the state of a finished step if it is time to; call it after each step, on every host.

        Args:
            step: that was finished.
            state: after it.
            **metrics: numbers of this step, saved beside the state. Give the one of `best` where it was measured, on
                every host; the leader's value counts.

        Raises:
            Preempted: this host or another one must leave; the step is saved.
        """
        self._check_open("save()")
        self._store.check()
        step = self._checked(step)
        self._last = Unsaved(step, state, metrics) if step != self._written else None
        is_due = self._cadence.is_due(step, metrics)
        must_leave = self._notice.has_come(self._cadence.calls)
        if is_due or must_leave:
            self._write()
        if must_leave:
            self._wait_for_all()
            raise Preempted(step)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._is_open = False
        try:
            if kind is None:
                self._end()
            elif not issubclass(kind, Preempted):
                reports().flush_step()
                self._store.abandon()
        finally:
            self._notice.end()

    def _end(self) -> None:
        """The usual end: the last step is saved, and no host goes on before it is."""
        reports().flush()
        if self._last is not None and not self._is_there(self._last.state):
            logger.warning("Step %s is not saved: its state was donated to a later computation.", self._last.step)
            self._last = None
        if self._seen is not None and agreement.is_leader() and not self._cadence.best.was_asked:
            logger.warning("No best checkpoint was kept: no step was saved with the metric of best=….")
        self._write()
        self._wait_for_all()
        self._store.close()

    def _check_open(self, call: str) -> None:
        if not self._is_open:
            raise UsageError(f"{call} was called outside of its block: call it inside of `with …:`.")

    def _checked(self, step: int) -> int:
        self._place.check_writable()  # at the first step, rather than at the first that is due
        step = whole(step, "save()")
        if step < (self._seen or 0):
            after = "" if self._seen is None else f" after step {self._seen}"
            raise UsageError(f"save() was given step {step}{after}: steps start at 0 and grow.")
        self._seen = step
        return step

    def _write(self) -> None:
        if self._last is None:
            return
        (step, state, given), self._last = self._last, None
        if not self._is_there(state):
            raise UsageError(
                f"Step {step} cannot be saved: its state was donated to a later computation. Give save() what the step"
                " has returned, before the next step takes it."
            )
        positions = None if self._data is None else data_position.positions(self._data)
        metrics = beside.numbers(given)
        side = beside.said(self.call, self._side)
        facts = beside.facts(
            self._saved_on(state), side=side, rule=self._rule, metrics=metrics, is_partly=self._is_partly
        )
        self._store.begin(step, state, positions, facts)
        self._cadence.saved(metrics)
        self._written = step
        self._saves += 1
        reports().rehearse_save(self._saves)

    def _sealed(self, step: int) -> None:
        """On the leader, in a thread: a checkpoint is whole."""
        progress().update(saved_step=step)
        progress().event(Event.SAVED, step=step)
        if self._prunes:
            self._prune()

    def _prune(self) -> None:
        """Of a program outside a job; what it cannot delete does not end it."""
        root = self._place.root
        try:
            retention.prune(root, self._place.start, partial(retention.but_the_newest, root))
        except (OSError, PlatformError) as exc:
            logger.warning("Checkpoints that are to go could not be deleted, and stay: %s", exc)

    def _wait_for_all(self) -> None:
        """Until the newest step is sealed, on every host."""
        self._store.settle()
        agreement.meet("prefect_tpu checkpoints")
        if self._written is not None:
            progress().update(saved_step=self._written)
        reports().flush()
