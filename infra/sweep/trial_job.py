"""How does the job of a trial stand? By its files alone: what it has reported, how it ended, what it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from prefect_tpu.infra import contract, layout, seals
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.errors import NoSuchJob, PlatformError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import checkpoints, history
from prefect_tpu.infra.launcher.status import StatusReader
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.study import is_number

LEADER = "-host0-"


class TrialJob:
    """One trial's job, looked at again and again. What its leader wrote once is read once."""

    def __init__(self, storage: Storage, metric: str) -> None:
        self.storage, self._metric = storage, metric
        self._status = StatusReader(storage)
        self._seen: set[str] = set()
        self._curve: dict[int, float] = {}

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

    def curve(self) -> dict[int, float]:
        """Steps done → value of the metric, as the leader has reported them in all attempts."""
        begun = [name for name in self.storage.children(layout.LEDGER) if LEADER in name and name not in self._seen]
        for name in begun:
            self._seen.add(name)
            for step, value in _steps(self.storage.get(f"{layout.LEDGER}/{name}") or b"", self._metric):
                self._curve[step + 1] = value
        newest = self._newest()
        return self._curve if newest is None else {newest[0] + 1: newest[1], **self._curve}

    def value(self, result: JobResult) -> float | None:
        """Of a job that succeeded: in what its program returned, or as last reported; None where it is in neither."""
        returned = result.value.get(self._metric) if isinstance(result.value, dict) else None
        if is_number(returned):
            return float(returned)
        newest = self._newest()
        if newest is not None:
            return newest[1]
        curve = self.curve()
        return curve[max(curve)] if curve else None

    def checkpoint(self) -> str | None:
        """Path or URL of the newest whole checkpoint; None where there is none."""
        points = (point for point in checkpoints.sealed(self.storage) if checkpoints.is_whole(self.storage, point))
        newest = next(points, None)
        if newest is None:
            return None
        return self.storage.where(f"{layout.CHECKPOINTS}/{seals.step_folder(newest)}")

    def stop_reason(self) -> str | None:
        """Why somebody asked it to stop; None where nobody did."""
        raw = self.storage.get(layout.STOP)
        if raw is None:
            return None
        with history.said_where(self.storage, layout.STOP):
            return str(contract.read_json(raw, layout.STOP).get("reason"))

    def _newest(self) -> tuple[int, float] | None:
        """(step, value) of the leader's newest report with this metric."""
        try:
            hosts = self._status.read().hosts
        except NoSuchJob:
            return None
        report = hosts[0].progress if hosts else None
        value = None if report is None else report.metrics.get(self._metric)
        if report is None or report.step is None or value is None or not is_number(value):
            return None
        return report.step, value


def _steps(raw: bytes, metric: str) -> Iterator[tuple[int, float]]:
    """(step, value) of an object of the ledger, but for damaged lines and values that are no numbers."""
    for line in raw.splitlines():
        event = _event(line)
        step, value = event.get("step"), event.get(metric)
        if event.get("event") == Event.STEP and isinstance(step, int) and step >= 0 and is_number(value):
            yield step, float(value)


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
