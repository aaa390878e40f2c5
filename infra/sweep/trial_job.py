"""How does the job of a trial stand? By its files alone: what it has reported, how it ended, what it leaves."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

from prefect_tpu.infra import layout, returned, seals
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import JobFailed, NoSuchJob, PlatformError, PrefectTpuError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import checkpoints, history, values
from prefect_tpu.infra.launcher.status import StatusReader
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage

log = logging.getLogger(__name__)
LEADER = "-host0-"
GIVEN_UP = "the sweep has given this trial up"  # the reason by which its job is stopped


class TrialJob:
    """One trial's job, looked at again and again. What its leader wrote once is read once."""

    def __init__(self, storage: Storage, metric: str) -> None:
        self.storage, self._metric = storage, metric
        self._status = StatusReader(storage)
        self._seen: set[str] = set()
        self._reported: dict[int, float] = {}  # also what is no number, such as NaN

    def take_code(self, program: str, sweep: Storage) -> None:
        """Copy a function from the sweep's folder, so that the job stands for itself; other programs `train` packs."""
        kind, _, rest = program.partition(":")
        if kind != "payload":
            return
        name = layout.payload(rest.partition(":")[0])
        raw = sweep.get(name)
        if raw is None:
            raise PlatformError(f"{sweep.where(name)}, the function of this sweep, is missing: put a copy of it back.")
        self.storage.put_if_absent(name, raw)

    def end(self) -> JobResult | None:
        """How the job ended; None while it has no end."""
        return history.read_result(self.storage)

    @property
    def is_there(self) -> bool:
        """Whether it was ever written down, and nobody has deleted it."""
        return history.is_there(self.storage)

    def ask_to_stop(self, reason: str) -> None:
        """Asked again and again: a job that is only about to begin, or to go on, forgets what was asked before."""
        if self.is_there and self.end() is None:
            history.ask_to_stop(self.storage, reason)

    def curve(self) -> dict[int, float]:
        """Steps done → value of the metric, as the leader has reported them in all attempts."""
        newest, reported = self._newest(), self._in_ledger()
        both = reported if newest is None else {newest[0]: newest[1], **reported}
        return {step + 1: value for step, value in both.items() if math.isfinite(value)}

    def value(self, result: JobResult) -> float | None:
        """Of a job that succeeded: in what its program returned, else as last reported; None where that is no finite
        number, for then it has come to nothing since it was one.
        """
        found = self._returned(result)
        value = returned.number(found[self._metric]) if self._metric in found else self._last()
        return value if value is not None and math.isfinite(value) else None

    def checkpoint(self) -> str | None:
        """Path or URL of the newest whole checkpoint; None where there is none."""
        points = (point for point in checkpoints.sealed(self.storage) if checkpoints.is_whole(self.storage, point))
        newest = next(points, None)
        if newest is None:
            return None
        return self.storage.where(f"{layout.CHECKPOINTS}/{seals.step_folder(newest)}")

    def stop_reason(self) -> str | None:
        """Why somebody asked it to stop; None where nobody did."""
        return history.stop_reason(self.storage)

    def _returned(self, result: JobResult) -> Mapping[Any, Any]:
        """By its names. Of a value that is large, or pickled as NumPy's and JAX's are, the result says only where."""
        value = result.value
        if isinstance(value, str) and result.attempts:
            value = self._unpickled(result.attempts[-1].number)
        return value if isinstance(value, Mapping) else {}

    def _unpickled(self, attempt: int) -> Any:
        try:
            return values.load(self.storage, attempt)
        except PrefectTpuError:
            raise
        except Exception as exc:  # its class may be at home on the host only; there is what was reported
            log.warning("What job %s returned cannot be read here: %s", self.storage.url, exc)
            return None

    def _last(self) -> float | None:
        """As the leader has reported it last, whatever that is."""
        if (newest := self._newest()) is not None:
            return newest[1]
        reported = self._in_ledger()
        return reported[max(reported)] if reported else None

    def _in_ledger(self) -> Mapping[int, float]:
        """Step → value, as far as it was written there."""
        begun = [name for name in self.storage.children(layout.LEDGER) if LEADER in name and name not in self._seen]
        for name in begun:
            self._seen.add(name)
            self._reported.update(_steps(self.storage.get(f"{layout.LEDGER}/{name}") or b"", self._metric))
        return self._reported

    def _newest(self) -> tuple[int, float] | None:
        """(step, value) of the leader's newest report, where it has this metric."""
        try:
            hosts = self._status.read().hosts
        except NoSuchJob:
            return None
        report = hosts[0].progress if hosts else None
        value = None if report is None else report.metrics.get(self._metric)
        if report is None or report.step is None or value is None:
            return None
        return report.step, value


def has_brought(error: Exception | None, end: JobResult) -> bool:
    """Whether a call that ended so has brought its job to this end; else that is an earlier one.

    A job that was stopped has an end when it is called again, and may be refused a slice before it goes on.
    """
    return error is None or (isinstance(error, JobFailed) and end.state == JobState.FAILED)


def _steps(raw: bytes, metric: str) -> Iterator[tuple[int, float]]:
    """(step, value) of an object of the ledger, but for damaged lines."""
    for line in raw.splitlines():
        event = _event(line)
        step, value = event.get("step"), returned.number(event.get(metric))
        if event.get("event") == Event.STEP and isinstance(step, int) and step >= 0 and value is not None:
            yield step, value


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
