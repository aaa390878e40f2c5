"""How does a program say how far it is, without slowing its steps?

A JAX value is computed after the call that returned it. Looking at it at once
would leave the chips idle between steps; never waiting lets a program run far
ahead of its chips, so that its heartbeat lies and a preemption must wait for a
long queue. So a report waits for the values of the one before the last.
"""

from __future__ import annotations

import atexit
import operator
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.drills import Moment
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.rehearsal import Rehearsal
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.pace import Pace
from prefect_tpu.infra.training.profile import Recorder, recorder
from prefect_tpu.infra.training.progress import ProgressFiles, progress

SHORTEST_PAUSE = 0.25  # seconds between two writes: one takes a millisecond, and people see no more than this
EVENT_SHARE = 0.001  # of the time so far between two step events: a long run's ledger stays small
STEPS_AHEAD = 2  # reports whose values may still be computed; enough to keep the chips busy


class Report(NamedTuple):
    step: int
    metrics: Mapping[str, Any]


class Reports:
    """The reports of one process."""

    def __init__(
        self,
        files: ProgressFiles,
        rehearsal: Rehearsal,
        clock: Callable[[], float] = time.monotonic,
        recorder: Recorder | None = None,
    ) -> None:
        self._files, self._rehearsal, self._clock, self._recorder = files, rehearsal, clock, recorder
        self._recent: deque[Report] = deque(maxlen=STEPS_AHEAD + 1)  # the newest last
        self._shown: Report | None = None
        self._pace = Pace()
        self._began = self._written_at = self._event_at = self._added_at = self._paced_at = clock()

    @property
    def has_any(self) -> bool:
        return bool(self._recent)

    def add(self, step: int, metrics: Mapping[str, Any]) -> None:
        step = whole(step, "report()")
        self._recent.append(Report(step, metrics))
        came = now = self._clock()
        if len(self._recent) > STEPS_AHEAD:
            _wait(self._recent[0].metrics)
            now = self._clock()
        self._pace.add(max(0.0, now - self._paced_at), now - came)
        self._added_at = self._paced_at = now
        if self._shown is None:
            self._files.update(first_step=step)
            self._show(self._recent[-1], now)
        elif now - self._written_at >= SHORTEST_PAUSE:
            self._write(now)
        if self._recorder is not None:
            self._record(self._recorder, self._recent[-1])
        self._rehearsal.drag()
        self._rehearsal.strike(Moment.STEP, step, self.flush)

    def rehearse_save(self, number: int) -> None:
        """Say that the attempt's save of this number is under way: where a drill may strike."""
        self._rehearsal.strike(Moment.SAVE, number, self.flush)

    def leave_out(self, seconds: float) -> None:
        """So much of the time since the last report was no step's."""
        self._paced_at += seconds

    def flush(self) -> None:
        """Bring the files up to the newest report, waiting for its values."""
        self.flush_step()
        if self._recent and not _is_gone(self._recent[-1].metrics):
            self._show(self._recent[-1], self._clock())

    def flush_step(self) -> None:
        """Bring the step alone up to date: after a failure the values may never come."""
        if self._recent and self._files.current.step != self._recent[-1].step:
            self._update()

    def end(self) -> None:
        """The program ends: its step is right, its values are those that are there, and a profile is kept."""
        self.flush_step()
        ready = next((report for report in reversed(self._recent) if _is_ready(report.metrics)), None)
        if ready is not None:
            self._show(ready, self._clock())
        if self._recorder is not None and self._recent:
            self._recorder.end(self._recent[-1].step)

    def _record(self, recorder: Recorder, report: Report) -> None:
        recorder.reported(report.step, lambda: _wait(report.metrics))
        self._paced_at = self._clock()  # what a recording takes is no step's
        if recorder.is_over:
            self._recorder = None

    def _write(self, now: float) -> None:
        """Show the newest report whose values are there; the step goes on meanwhile."""
        ready = next((report for report in reversed(self._recent) if _is_ready(report.metrics)), None)
        if ready is None:
            self._written_at = now
            self.flush_step()
        else:
            pause = max(SHORTEST_PAUSE, EVENT_SHARE * (now - self._began))
            self._show(ready, now, event=now - self._event_at >= pause)

    def _show(self, report: Report, now: float, *, event: bool = True) -> None:
        if report is self._shown:
            return self.flush_step()
        values = {name: _number(name, value) for name, value in report.metrics.items()}
        self._written_at, self._shown = now, report
        self._update(metrics=values)
        if event:
            self._event_at = now
            self._files.event(Event.STEP, **{**values, "step": report.step})  # whatever a metric is called

    def _update(self, **changes: object) -> None:
        after = self._files.after(self._added_at)
        self._files.update(step=self._recent[-1].step, reported_after=after, **self._pace.facts, **changes)


def _wait(metrics: Mapping[str, Any]) -> None:
    if not _is_gone(metrics):
        for value in metrics.values():
            if hasattr(value, "block_until_ready"):
                value.block_until_ready()


def _is_ready(metrics: Mapping[str, Any]) -> bool:
    return not _is_gone(metrics) and all(v.is_ready() for v in metrics.values() if hasattr(v, "is_ready"))


def _is_gone(metrics: Mapping[str, Any]) -> bool:
    """Whether a value was donated to a later step, as a counter inside the state may be."""
    return any(v.is_deleted() for v in metrics.values() if hasattr(v, "is_deleted"))


def whole(step: Any, call: str) -> int:
    """A step as a number. Raises `UsageError`, as of this call, for what is none."""
    try:
        return operator.index(step)
    except TypeError as exc:
        raise UsageError(
            f"{call} was given a {type(step).__name__} as its step: give the whole number of the step that was done."
        ) from exc


def _number(name: str, value: Any) -> float:
    try:
        return float(value.detach() if hasattr(value, "detach") else value)  # a torch loss is part of a graph
    except (TypeError, ValueError) as exc:
        raise UsageError(f"Metric {name!r} is no number but a {type(value).__name__}: report one number each.") from exc


_reports: Reports | None = None


def reports() -> Reports:
    """The reports of this process; their step is complete when the process ends."""
    global _reports
    if _reports is None:
        here = context()
        rehearsal = Rehearsal() if here is None else Rehearsal(here.plan, here.host, here.runner, here.started)
        _reports = Reports(progress(), rehearsal, recorder=recorder(progress().event))
        atexit.register(_reports.end)
    return _reports


@cache  # once: a program may join again
def expect_reports() -> None:
    """Where a profile is asked for, and the program ends without a report, its log says that there is none, and why.

    Raises `UsageError` for a window that is none.
    """
    wanted = recorder(progress().event)
    if wanted is not None:
        atexit.register(lambda: None if _reports is not None and _reports.has_any else wanted.end(0))


def leave_out(seconds: float) -> None:
    """So much of the time since the program's last report was no step's; nothing where there was none."""
    if _reports is not None:
        _reports.leave_out(seconds)


def report(step: int, **metrics: Any) -> None:
    """Say that `step` is done: a heartbeat, with numbers worth showing.

    Cheap enough for every step: it writes at most four times a second, and waits only
    for the values reported two calls before. In a rehearsal, this is where a drill strikes.

    Args:
        step: the step that was done.
        **metrics: numbers of this step, also as JAX or NumPy scalars.
    """
    reports().add(step, metrics)
