"""When is a state saved, and where does a program start? Known from the job; all hosts agree."""

from __future__ import annotations

import logging
import operator
import os
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from prefect_tpu.infra import layout, seals, start_points
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import Preempted, UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage, local_folder, open_on_host, open_storage
from prefect_tpu.infra.training import agreement, data_position, leaves, schedule
from prefect_tpu.infra.training.context import Context, context
from prefect_tpu.infra.training.data_position import DataIterator
from prefect_tpu.infra.training.preemption import AgreedNotice, Notice, OwnNotice
from prefect_tpu.infra.training.progress import progress
from prefect_tpu.infra.training.report import reports
from prefect_tpu.infra.training.schedule import Check, Schedule
from prefect_tpu.infra.training.store import Store

EVERY = 600.0  # seconds between two saves outside a job
DIRECTORY = "checkpoints"  # where they lie outside a job

State = TypeVar("State")
logger = logging.getLogger(__name__)


def checkpoints(
    every: float | None = None, data: DataIterator | None = None, directory: Path | str | None = None
) -> Checkpoints:
    """A block in which the program's state is saved in time, before a preemption and at the end.

    Args:
        every: seconds between two saves; by default the job's, 10 minutes.
        data: an iterator with `get_state()` and `set_state()`, whose position is saved and restored too.
        directory: where checkpoints lie outside a job, a folder or a URL of one in a bucket; `checkpoints` by default.
            Inside one, the job decides.
    """
    return Checkpoints(every=every, data=data, directory=directory)


class Checkpoints:
    """See `checkpoints`."""

    def __init__(self, *, every: float | None, data: DataIterator | None, directory: Path | str | None) -> None:
        if every is not None and not every > 0:
            raise UsageError(f"checkpoints(every={every}): give a number of seconds above 0.")
        self._every, self._data = every, data
        self._directory = _absolute(os.fspath(directory or DIRECTORY))
        self._last: tuple[int, Any] | None = None  # the newest state that is not saved
        self._seen: int | None = None
        self._written: int | None = None
        self._saves = 0

    def __enter__(self) -> Checkpoints:
        data_position.check(self._data)  # now, rather than at the first save
        self._notice: Notice = AgreedNotice() if agreement.peers() > 1 else OwnNotice()
        self._notice.begin()  # first: a notice that comes while Orbax is loaded must be heard too
        try:
            self._open()
        except BaseException:
            self._notice.end()
            raise
        return self

    def _open(self) -> None:
        here = context()
        root, attempt, self._start = _in_job(here) if here is not None else _outside(open_storage(self._directory))
        self._store = Store(root, attempt, _tell_saved)
        self._schedule = Schedule(
            every=self._every or (here.plan.checkpoint_every if here is not None else EVERY),
            agree=_agree,
            longest=schedule.LONGEST_WAIT if agreement.peers() > 1 else 1,
        )

    def restore(self, state: State) -> tuple[State, int]:
        """(the saved state, the step to go on with); the given state and 0 where nothing was saved.

        The saved state is placed like the given one, also on another number of devices. A job that was told to
        `start_from` another one has that one's state and 0 until it has saved one of its own.

        Raises:
            UsageError: the given state differs in structure or shapes, or the job to start from has no checkpoint.
        """
        if self._start is None:
            return self._given(state), 0
        restored, stored = self._store.read(self._start, state)
        if self._data is not None and stored is not None:
            data_position.set_position(self._data, stored, *agreement.place())
        progress().update(saved_step=self._start.step)
        progress().event(Event.RESTORED, step=self._start.step, attempt=self._start.attempt)
        return restored, self._start.step + 1

    def _given(self, state: State) -> State:
        """The model that the job was told to start with; the state itself where it was told of none."""
        here = context()
        if here is None or not here.plan.start_from:
            return state
        root, point = _start_of(here.plan.start_from)
        given: State = self._store.read(point, state, root)[0]
        progress().event(Event.RESTORED, step=point.step, attempt=point.attempt, start_from=here.plan.start_from)
        return given

    def save(self, step: int, state: Any) -> None:
        """Save the state of a finished step if it is time to; call it after each step, on every host.

        Raises:
            Preempted: this host or another one must leave; the step is saved.
        """
        self._store.check()
        step = self._checked(step)
        self._last = (step, state) if step != self._written else None
        is_due = self._schedule.is_due()
        must_leave = self._notice.has_come(self._schedule.calls)
        if is_due or must_leave:
            self._write()
        if must_leave:
            self._wait_for_all()
            raise Preempted(step)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
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
        if self._last is not None and not leaves.are_there(self._last[1]):
            logger.warning("Step %s is not saved: its state was donated to a later computation.", self._last[0])
            self._last = None
        self._write()
        self._wait_for_all()
        self._store.close()

    def _checked(self, step: int) -> int:
        step = operator.index(step)
        if step < 0 or (self._seen is not None and step < self._seen):
            raise UsageError(f"save() was given step {step} after step {self._seen}: steps start at 0 and grow.")
        self._seen = step
        return step

    def _write(self) -> None:
        if self._last is None:
            return
        (step, state), self._last = self._last, None
        positions = None if self._data is None else data_position.positions(self._data)
        self._store.begin(step, state, positions)
        self._schedule.saved()
        self._written = step
        self._saves += 1
        reports().rehearse_save(self._saves)

    def _wait_for_all(self) -> None:
        """Until the newest step is sealed, on every host."""
        self._store.settle()
        agreement.meet("prefect_tpu checkpoints")
        if self._written is not None:
            progress().update(saved_step=self._written)
        reports().flush()


def _agree(own: Check) -> Check:
    due, next_call = agreement.from_leader((own.due, own.next_call))
    return Check(due=bool(due), next_call=next_call)


def _tell_saved(step: int) -> None:
    progress().update(saved_step=step)
    progress().event(Event.SAVED, step=step)


def _absolute(directory: str) -> str:
    """Of a folder, now: the program may go to another one before it opens this."""
    return directory if "://" in directory else os.path.abspath(directory)


def _in_job(here: Context) -> tuple[Storage, int, RestorePoint | None]:
    """(folder of all attempts, this attempt, where it starts from)"""
    plan = here.plan
    if here.is_flow:
        raise UsageError(
            f"prefect_tpu.checkpoints() was called in the flow itself, which runs on the leader of {plan.hosts} hosts:"
            " call it in a function that prefect_tpu.every_host(function)(...) runs on each of them."
        )
    if plan.hosts > 1 and agreement.peers() == 1:
        raise UsageError(
            f"Host {here.host} of job {plan.job!r} has not met the other {plan.hosts - 1}:"
            " call prefect_tpu.join() at the start of the program."
        )
    if plan.region is not None:
        return _outside(open_on_host(plan.output).inside(layout.region_checkpoints(plan.region)))
    root = open_on_host(plan.output).inside(layout.CHECKPOINTS)
    if (folder := local_folder(root)) is not None:
        (folder / str(plan.attempt)).mkdir(parents=True, exist_ok=True)
    return root, plan.attempt, plan.restore


def _start_of(place: str) -> tuple[Storage, RestorePoint]:
    """(folder of another job's checkpoints, which of them). The leader chooses for all."""
    start = start_points.parse(place)
    job = open_on_host(start.folder)
    attempt, step = (start.point.attempt, start.point.step) if start.point is not None else (-1, -1)
    if start.point is None and agreement.is_leader():
        newest = start_points.newest(job)
        attempt, step = (newest.point.attempt, newest.point.step) if newest and newest.point else (-1, -1)
    attempt, step = agreement.from_leader((attempt, step))
    if step < 0:
        raise UsageError(
            f"The job to start from, {place}, has no whole checkpoint: name another one, or start without start_from."
        )
    return start_points.checkpoints_of(job), RestorePoint(attempt=attempt, step=step)


def _outside(root: Storage) -> tuple[Storage, int, RestorePoint | None]:
    """As in a job: a new folder for each run, so that none spoils what another wrote. So too for a flow's region."""
    number, attempt, step = 0, -1, -1
    if agreement.is_leader():
        newest = seals.newest_whole(root)
        attempt, step = (newest.attempt, newest.step) if newest is not None else (-1, -1)
        number = _new_folder(root)
    number, attempt, step = agreement.from_leader((number, attempt, step))
    return root, number, None if step < 0 else RestorePoint(attempt=attempt, step=step)


def _new_folder(root: Storage) -> int:
    number = max((int(name) for name in root.children("") if name.isdecimal()), default=0)
    while True:
        number += 1
        if root.put_if_absent(layout.claim(number), b"{}"):  # else another run began at the same moment
            return number
