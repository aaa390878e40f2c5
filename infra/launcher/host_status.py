"""How does each host of an attempt stand, by what it wrote?

On this machine its files are read where they lie. Of hosts with a disk of their own one listing says what they have
written, and only what has changed since the last look is read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Activity, HostRecord, Progress, Silence
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.scratch import HostProgress
from prefect_tpu.infra.state import HostPhase
from prefect_tpu.infra.storage import Facts, Storage, local_folder

SILENT_AFTER_SECONDS = 20.0  # a step seldom takes longer, and people begin to wonder


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """One host of the newest attempt, by what it wrote.

    silent_seconds: since its last report, once that is long; None before, and where it has never reported.
    activity: what it does meanwhile, once its runner has looked.
    exit_code: of its runner, by its record; None without one.
    reason: why its record cannot be read; empty where it can or there is none.
    """

    host: int
    phase: HostPhase
    joined: bool = False  # it has met the others; of a flow, whose hosts meet in regions alone: it is there
    progress: Progress = field(default_factory=Progress)
    silent_seconds: float | None = None
    activity: Activity | None = None
    exit_code: int | None = None
    stop_reason: str | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        report = self.progress
        return {
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name != "progress"},
            "step": report.step,
            "first_step": report.first_step,
            "saved_step": report.saved_step,
            "step_seconds": report.step_seconds,
            "own_seconds": report.own_seconds,
            "metrics": {name: value if math.isfinite(value) else str(value) for name, value in report.metrics.items()},
        }


class HostReader:
    """Looks at the hosts of one job, and keeps what it has read of them until that changes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: dict[str, tuple[Facts, bytes | None]] = {}

    def read(self, plan: HostPlan) -> tuple[tuple[HostStatus, ...], float]:
        """Each host, and when any of them last wrote something that tells; 0 where none has."""
        files = self._files(plan)
        hosts = tuple(_read_host(self._storage, files, plan, host) for host in range(plan.hosts))
        times = (files.changed(name) for host in range(plan.hosts) for name in _telling(plan, host))
        return hosts, max((moment for moment in times if moment is not None), default=0.0)

    def _files(self, plan: HostPlan) -> _Files:
        if plan.scratch is None:
            return self._storage
        return _Listed(self._storage, self._storage.facts(layout.hosts(plan.attempt)), self._kept)


class _Files(Protocol):
    """What is read of hosts' files."""

    def get(self, name: str) -> bytes | None: ...

    def changed(self, name: str) -> float | None: ...


class _Listed:
    """Files that were listed at once: what is not among them is not asked for, what was read is kept."""

    def __init__(
        self, storage: Storage, facts: Mapping[str, Facts], kept: dict[str, tuple[Facts, bytes | None]]
    ) -> None:
        self._storage, self._facts, self._kept = storage, facts, kept

    def get(self, name: str) -> bytes | None:
        facts = self._facts.get(name)
        if facts is None:
            return None
        if name not in self._kept or self._kept[name][0] != facts:
            self._kept[name] = facts, self._storage.get(name)
        return self._kept[name][1]

    def changed(self, name: str) -> float | None:
        facts = self._facts.get(name)
        return None if facts is None else facts.changed


def _read_host(storage: Storage, files: _Files, plan: HostPlan, host: int) -> HostStatus:
    """What one host of an attempt wrote of itself."""
    attempt, told = plan.attempt, _told(storage, files, plan, host)
    raw = files.get(layout.record(attempt, host))
    if raw is not None:
        return _ended(host, raw, told.joined, told.progress)
    if files.get(layout.started(attempt, host)) is None:
        return HostStatus(host=host, phase=HostPhase.PENDING)
    silence = _silence(files, attempt, host)
    return HostStatus(
        host=host,
        phase=HostPhase.RUNNING,
        joined=told.joined or plan.program.kind == "flow",
        progress=told.progress,
        silent_seconds=_silent_seconds(silence, files.changed(_report(plan, host))),
        activity=Activity(silence.activity) if silence else None,
    )


def _told(storage: Storage, files: _Files, plan: HostPlan, host: int) -> HostProgress:
    """How far it is: by its scratch folder, which may have been moved with its job, or by what its runner tells."""
    if plan.scratch is not None:
        return HostProgress.from_json(files.get(layout.progress(plan.attempt, host)))
    folder = local_folder(storage)
    return HostProgress() if folder is None else HostProgress.of(folder / layout.scratch(plan.attempt, host))


def _report(plan: HostPlan, host: int) -> str:
    """The file that is written with each report."""
    if plan.scratch is not None:
        return layout.progress(plan.attempt, host)
    return f"{layout.scratch(plan.attempt, host)}/{contract.Scratch.PROGRESS}"


def _telling(plan: HostPlan, host: int) -> tuple[str, ...]:
    """The files by which people see that a host moves."""
    return layout.started(plan.attempt, host), layout.record(plan.attempt, host), _report(plan, host)


def _ended(host: int, raw: bytes, joined: bool, progress: Progress) -> HostStatus:
    try:
        record = HostRecord.from_json(raw)
    except contract.ContractError as exc:
        return HostStatus(host=host, phase=HostPhase.ENDED, joined=joined, progress=progress, reason=str(exc))
    return HostStatus(
        host=host,
        phase=HostPhase.ENDED,
        joined=joined or record.joined_after is not None,
        progress=record.progress,
        exit_code=record.exit_code,
        stop_reason=record.stop_reason,
    )


def _silence(files: _Files, attempt: int, host: int) -> Silence | None:
    """Of a host that makes no steps; None where it is not silent, or its file cannot be read."""
    raw = files.get(layout.silence(attempt, host))
    try:
        return None if raw is None else Silence.from_json(raw)
    except contract.ContractError:
        return None


def _silent_seconds(silence: Silence | None, reported: float | None) -> float | None:
    """What a runner says grows old: while others make steps it says so once."""
    since = _since(reported)
    return since if silence is None else max(silence.silent_for, since or 0.0)


def _since(reported: float | None) -> float | None:
    """By the file's own time, which is this machine's where the hosts are, and a bucket's is never far from it."""
    since = 0.0 if reported is None else time.time() - reported
    return since if since > SILENT_AFTER_SECONDS else None
