"""How does a program say how far it is, without slowing its steps?

A JAX value is computed after the call that returned it, so looking at it would
stop the program. A report waits for its values only at the first step and at
the end; in between it shows the newest ones that are ready.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Mapping
from typing import Any

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.progress import ProgressFiles, progress
from prefect_tpu.infra.training.rehearse import Rehearsal

SHORTEST_PAUSE = 0.1  # seconds between two writes
EVENT_SHARE = 0.001  # of the time so far between two step events: a long run's ledger stays small


class Reports:
    """The reports of one process."""

    def __init__(self, files: ProgressFiles, rehearsal: Rehearsal, clock: Callable[[], float] = time.monotonic) -> None:
        self._files, self._rehearsal, self._clock = files, rehearsal, clock
        self._step: int | None = None
        self._newest: tuple[int, Mapping[str, Any]] | None = None
        self._waiting: tuple[int, Mapping[str, Any]] | None = None
        self._began = self._written_at = self._event_at = clock()

    def add(self, step: int, metrics: Mapping[str, Any]) -> None:
        first, self._step = self._step is None, step
        self._newest = (step, metrics)
        self._waiting = self._waiting or self._newest
        now = self._clock()
        if first:
            self._files.update(step=step, first_step=step)
            self._show(self._newest, now, event=True)
        elif now - self._written_at >= SHORTEST_PAUSE:
            self._write(now)
        self._rehearsal.strike(step, self.flush)

    def flush(self) -> None:
        """Bring the files up to the newest report, waiting for its values."""
        self.flush_step()
        if self._newest is not None and not _is_gone(self._newest[1]):
            self._show(self._newest, self._clock(), event=True)

    def flush_step(self) -> None:
        """Bring the step alone up to date: after a failure the values may never come."""
        if self._step is not None and self._files.current.step != self._step:
            self._files.update(step=self._step)

    def _write(self, now: float) -> None:
        """Show the newest report whose values are there; the step goes on meanwhile."""
        self._written_at = now
        due = now - self._event_at >= max(SHORTEST_PAUSE, EVENT_SHARE * (now - self._began))
        for report in (self._newest, self._waiting):
            if report is not None and _is_ready(report[1]):
                return self._show(report, now, event=due)
        if self._waiting is not None and _is_gone(self._waiting[1]):
            self._waiting = None
        self._files.update(step=self._step)

    def _show(self, report: tuple[int, Mapping[str, Any]], now: float, *, event: bool) -> None:
        step, metrics = report
        self._waiting = None
        self._newest = None if report is self._newest else self._newest
        values = {name: _number(name, value) for name, value in metrics.items()}
        self._written_at = now
        self._files.update(step=self._step, metrics=values)
        if event:
            self._event_at = now
            self._files.event(Event.STEP, step=step, **values)


def _is_ready(metrics: Mapping[str, Any]) -> bool:
    return not _is_gone(metrics) and all(v.is_ready() for v in metrics.values() if hasattr(v, "is_ready"))


def _is_gone(metrics: Mapping[str, Any]) -> bool:
    """Whether a value was donated to a later step, as a counter inside the state may be."""
    return any(v.is_deleted() for v in metrics.values() if hasattr(v, "is_deleted"))


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"Metric {name!r} is no number but a {type(value).__name__}: report one number each.") from exc


_reports: Reports | None = None


def reports() -> Reports:
    """The reports of this process; their step is complete when the process ends."""
    global _reports
    if _reports is None:
        _reports = Reports(progress(), Rehearsal(context()))
        atexit.register(_reports.flush_step)
    return _reports


def report(step: int, **metrics: Any) -> None:
    """Say that `step` is done: a heartbeat, with numbers worth showing.

    Cheap enough for every step: it writes at most ten times a second and does not
    wait for JAX. In a rehearsal, this is where a drill strikes.

    Args:
        step: the step that was done.
        **metrics: numbers of this step, also as JAX or NumPy scalars.
    """
    reports().add(step, metrics)
