"""How does a job stand? Told from its files alone, by any process, whether anybody drives it or not."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Activity, HostRecord, Progress, Silence
from prefect_tpu.infra.errors import Failure, NoSuchJob
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.lease import driver_of
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.scratch import joined_after, read_progress
from prefect_tpu.infra.state import HostPhase, JobState
from prefect_tpu.infra.storage import LocalStorage

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
    joined: bool = False
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
            "metrics": {name: value if math.isfinite(value) else str(value) for name, value in report.metrics.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job as its folder shows it now.

    output: the job's folder.
    state: where nobody drives, what it was when somebody last did.
    attempt: number of the newest attempt, 0 before the first.
    accelerator: of the newest attempt; before it, the first that was asked for.
    steps: how many there will be, where the program has a parameter of that name.
    driver: who drives it; None where nobody does or whoever did is dead.
    hosts: of the newest attempt.
    attempts: that have ended, of all rounds, oldest first.
    failure, value: of the job's end.
    began, changed: seconds since the epoch: when it was first asked for, and when its files last changed.
    """

    name: str
    output: str
    state: JobState
    attempt: int
    accelerator: str
    accelerators: tuple[str, ...]
    steps: int | None
    driver: str | None
    hosts: tuple[HostStatus, ...]
    attempts: tuple[AttemptSummary, ...]
    failure: Failure | None
    value: Any
    began: float
    changed: float

    @property
    def is_abandoned(self) -> bool:
        """Without an end and without anybody who brings it there."""
        return not self.state.is_final and self.driver is None

    @property
    def step(self) -> int | None:
        """The furthest step that any host reported in the newest attempt."""
        return _highest(host.progress.step for host in self.hosts)

    @property
    def saved_step(self) -> int | None:
        """The furthest step that any attempt saved."""
        saved = [host.progress.saved_step for host in self.hosts]
        return _highest([*saved, *(attempt.saved_step for attempt in self.attempts)])

    def to_json(self) -> dict[str, Any]:
        shallow = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            **shallow,
            "step": self.step,
            "saved_step": self.saved_step,
            "hosts": [host.to_json() for host in self.hosts],
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "failure": self.failure and self.failure.to_json(),
        }


def read_status(folder: str) -> JobStatus:
    """The job whose folder this is.

    Raises:
        NoSuchJob: there is no job.
        ContractError: a file of it is damaged, or was written by a newer version.
    """
    storage = LocalStorage(folder)
    job = history.read_job(storage)
    if job is None:
        raise NoSuchJob(f"There is no job in {storage.url}: check its name and the output.")
    result = history.read_result(storage)
    numbers = history.attempt_numbers(storage)
    plan = history.read_plan(storage, numbers[-1]) if numbers else None
    hosts = tuple(read_host(storage, plan.attempt, host) for host in range(plan.hosts)) if plan else ()
    driver = driver_of(storage)
    return JobStatus(
        name=job.name,
        output=storage.url,
        state=JobState(result.state) if result else _state(storage, plan, hosts),
        attempt=plan.attempt if plan else 0,
        accelerator=plan.accelerator if plan else job.accelerators[0],
        accelerators=job.accelerators,
        steps=job.program.steps,
        driver=None if driver is None else str(driver),
        hosts=hosts,
        attempts=history.all_ended(storage),
        failure=result.failure if result else None,
        value=result.value if result else None,
        began=_changed(storage, [layout.JOB]),
        changed=_changed(storage, _telling(plan, result)),
    )


def read_host(storage: LocalStorage, attempt: int, host: int) -> HostStatus:
    """What one host of an attempt wrote of itself."""
    scratch = storage.path(layout.scratch(attempt, host))
    progress = read_progress(scratch)
    joined = joined_after(scratch) is not None or progress.step is not None
    raw = storage.get(layout.record(attempt, host))
    if raw is not None:
        return _ended(host, raw, joined, progress)
    if storage.get(layout.started(attempt, host)) is None:
        return HostStatus(host=host, phase=HostPhase.PENDING)
    silence = _silence(storage, attempt, host)
    return HostStatus(
        host=host,
        phase=HostPhase.RUNNING,
        joined=joined,
        progress=progress,
        silent_seconds=_silent_seconds(silence, scratch / contract.Scratch.PROGRESS),
        activity=Activity(silence.activity) if silence else None,
    )


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


def _silence(storage: LocalStorage, attempt: int, host: int) -> Silence | None:
    """Of a host that makes no steps; None where it is not silent, or its file cannot be read."""
    raw = storage.get(layout.silence(attempt, host))
    try:
        return None if raw is None else Silence.from_json(raw)
    except contract.ContractError:
        return None


def _silent_seconds(silence: Silence | None, progress: Path) -> float | None:
    """What a runner says grows old: while others make steps it says so once."""
    since = _since_report(progress)
    return since if silence is None else max(silence.silent_for, since or 0.0)


def _since_report(progress: Path) -> float | None:
    """By the file's own time, which is this machine's where the hosts are."""
    try:
        since = time.time() - progress.stat().st_mtime
    except OSError:
        return None
    return since if since > SILENT_AFTER_SECONDS else None


def _state(storage: LocalStorage, plan: HostPlan | None, hosts: Sequence[HostStatus]) -> JobState:
    """Of a job without an end."""
    if history.is_stop_asked(storage):
        return JobState.STOPPING
    ended = history.ended_of_round(storage)
    if plan is not None and history.read_outcome(storage, plan.attempt) is None:
        return JobState.RUNNING if all(host.joined for host in hosts) else JobState.STARTING
    if not ended:
        return JobState.QUEUED
    return JobState.RUNNING if ended[-1].failure is None else JobState.BACKING_OFF


def _telling(plan: HostPlan | None, result: JobResult | None) -> list[str]:
    """The files by which people see that a job moves."""
    names = [layout.JOB, layout.STOP, *([layout.RESULT] if result else [])]
    if plan is None:
        return names
    names += [layout.plan(plan.attempt), layout.outcome(plan.attempt)]
    for host in range(plan.hosts):
        of_host = (layout.started(plan.attempt, host), layout.record(plan.attempt, host))
        names += [*of_host, f"{layout.scratch(plan.attempt, host)}/{contract.Scratch.PROGRESS}"]
    return names


def _changed(storage: LocalStorage, names: Iterable[str]) -> float:
    """When the youngest of these files was written; 0 where none is there."""
    times = []
    for name in names:
        try:
            times.append(storage.path(name).stat().st_mtime)
        except OSError:  # not there yet, or gone since
            continue
    return max(times, default=0.0)


def _highest(steps: Iterable[int | None]) -> int | None:
    return max((step for step in steps if step is not None), default=None)
