"""What is done about one run and its job? Looks at both, decides, and carries it out: nothing on an old look alone."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
from prefect.client.schemas.objects import FlowRun, State, StateType, WorkPool
from prefect.logging.loggers import flow_run_logger

from prefect_tpu.flows.work_pool import crash_logs
from prefect_tpu.flows.work_pool.cases import CALM_SECONDS, Case
from prefect_tpu.flows.work_pool.decision import (
    Action,
    Crash,
    Drive,
    Leave,
    Proposal,
    Requeue,
    Stop,
    Wait,
    decide,
)
from prefect_tpu.flows.work_pool.facts import JobFacts, JobPhase, RunFacts
from prefect_tpu.flows.work_pool.job_reading import JobRead, JobReader
from prefect_tpu.flows.work_pool.kept_secret import forget_secret
from prefect_tpu.flows.work_pool.run_ends import end_of
from prefect_tpu.flows.work_pool.run_reading import Runs, run_facts
from prefect_tpu.flows.work_pool.tables import Tables
from prefect_tpu.flows.work_pool.transitions import SUBMITTED, Transitions
from prefect_tpu.flows.work_pool.voice import Voice
from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.fleet import Drive as FleetDrive
from prefect_tpu.infra.launcher.fleet import Fleet
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.storage import Storage
from prefect_tpu.tasks.belonging import related
from prefect_tpu.tasks.slice_events import SliceEvents, restarted

log = logging.getLogger(__name__)
ANOTHER_SECONDS = 5.0  # until it is looked again whether another worker has done what was due


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What is needed to act.

    started: hears of each drive that was begun.
    changed: hears that a run is to be called something else.
    failed: hears that an attempt of a run's job has failed and another one may follow.
    """

    runs: Runs
    transitions: Transitions
    tables: Tables
    fleet: Fleet
    pool: WorkPool
    started: Callable[[Case, FleetDrive], None]
    changed: Callable[[Case], None]
    failed: Callable[[Case], None]

    async def see_to(self, case: Case) -> bool:
        """Do what is due. Whether the case is closed.

        What was seen of the run by a look at many is only good for finding out that nothing is due. Else the job is
        read first and then the run: what the engine said last before its slice went is then seen.
        """
        read = await self._read(case)
        action: Action = decide(self._facts(case, case.run), read.facts)
        is_looked_at_later = isinstance(action, Proposal) and self.has_turn(case)  # right before it is proposed
        if not isinstance(action, Leave | Wait) and not is_looked_at_later:
            await self._look_at_run(case)
            action = decide(await self._counted(case, read), read.facts)
        match action:
            case Leave():
                return await self._leave(case, read)
            case Wait(seconds=seconds):
                case.due = time.monotonic() + seconds
            case Drive():
                await self._drive(case, action, read)
            case Stop(reason=reason):
                await self._stop(case, reason)
            case _:
                await self._propose(case, action, read)
        return False

    async def _read(self, case: Case) -> JobRead:
        if (driven := case.driven(self.fleet)) is not None:
            return JobRead(facts=driven)
        return await self._read_anew(case)

    async def _read_anew(self, case: Case) -> JobRead:
        if not case.folder:  # nobody has said where it would be
            return JobRead(facts=JobFacts(phase=JobPhase.ABSENT))
        if case.reader is None:
            case.reader = await anyio.to_thread.run_sync(JobReader, case.folder)
        read = await anyio.to_thread.run_sync(case.reader.read)
        case.has_asked = read.facts.is_stop_asked
        return read

    def _storage(self, case: Case) -> Storage:
        case.reader = case.reader or JobReader(case.folder)
        return case.reader.storage

    async def _look_at_run(self, case: Case) -> None:
        case.saw(await self.runs.read(case.id), time.monotonic())

    def _facts(self, case: Case, run: FlowRun | None, resubmitted: int = 0) -> RunFacts:
        return run_facts(_of_job(run, case.folder), _now(), time.monotonic() - case.since, resubmitted)

    async def _counted(self, case: Case, read: JobRead) -> RunFacts:
        """With how often it was submitted in vain, where that counts."""
        facts = self._facts(case, case.run)
        action = decide(facts, read.facts)
        if not isinstance(action, Requeue) or action.of or read.facts.due is not None:
            return facts
        return self._facts(case, case.run, await self.runs.resubmitted(case.id))

    async def _leave(self, case: Case, read: JobRead) -> bool:
        case.due = time.monotonic() + CALM_SECONDS
        if read.facts.phase is JobPhase.OPEN or not self._facts(case, case.run).is_over:
            return False
        is_clear = await self._is_cleared_up(case, read)
        if not is_clear:
            case.due = time.monotonic() + ANOTHER_SECONDS
        elif (end := end_of(_of_job(case.run, case.folder), read.facts, _now())) is not None:
            self._events(case).send(end)
        return is_clear

    async def _is_cleared_up(self, case: Case, read: JobRead) -> bool:
        """The secrets of a job that is over go, unless its run is begun again. False where it is to be tried again.

        Its table comes first: while there are secrets, whoever comes after a killed worker finds the job.
        """
        if read.job is None or read.facts.phase is not JobPhase.OVER:
            return True
        async with self.fleet.hold(case.folder) as storage:
            if storage is None or (anew := await self._read_anew(case)).facts.phase is not JobPhase.OVER:
                return False
            await self._look_at_run(case)
            if not self._facts(case, case.run).is_over:
                return False
            run = _of_job(case.run, case.folder)
            if run is not None and end_of(run, anew.facts, _now()) is not None:
                await self.tables.leave(run, storage)
            await forget_secret(storage, read.job)
            return True

    async def _stop(self, case: Case, reason: str) -> None:
        """Whoever drives the job hears of it; a drive of ours at once."""
        await anyio.to_thread.run_sync(history.ask_to_stop, self._storage(case), reason)
        case.has_asked, case.due = True, 0.0
        if (drive := self.fleet.drives.get(case.folder)) is not None:
            drive.nudge()

    async def _drive(self, case: Case, action: Drive, read: JobRead) -> None:
        """The run is named first: one that is called so was driven since it was handed out."""
        if action.names and not await self._name_submitted(case):
            case.due = time.monotonic() + ANOTHER_SECONDS
            return
        assert case.run is not None or read.facts.is_stop_asked, "a job without a run is driven to its end alone"
        case.voice = Voice(
            self._events(case),
            self.log_of(case),
            has_turn=lambda: self.has_turn(case),
            changed=lambda: self.changed(case),
            failed=lambda: self.failed(case),
        )
        case.due = time.monotonic() + CALM_SECONDS
        self.started(case, self.fleet.start(case.folder, case.voice, hands_back=True, after=action.after))

    async def _name_submitted(self, case: Case) -> bool:
        async with self.fleet.hold(case.folder) as storage:
            if storage is None:
                return False
            case.named = SUBMITTED
            why = "Its job is written down, and waits for a slice."
            return self.has_moved(case, await self.transitions.name(case.id, SUBMITTED, why))

    def has_turn(self, case: Case) -> bool:
        """Whether this process drives the job, so that it moves the run and speaks for it."""
        drive = self.fleet.drives.get(case.folder)
        return drive is not None and drive.is_driving

    async def _propose(self, case: Case, wanted: Proposal, read: JobRead) -> None:
        """Only whoever holds the job's lease moves its run; a run without a job is anybody's."""
        if read.facts.phase is not JobPhase.OPEN and read.facts.phase is not JobPhase.OVER:
            await self._make(case, wanted)
            return
        async with self.fleet.hold(case.folder) as storage:
            if storage is None:
                case.due = time.monotonic() + ANOTHER_SECONDS
                return
            # Of a job that is driven here the drive knows more than is written: its hosts may still be being ended.
            read = await (self._read(case) if self.has_turn(case) else self._read_anew(case))
            if not self._is_checked_by_prefect(case, wanted):
                await self._look_at_run(case)
            action = decide(await self._counted(case, read), read.facts)
            case.due = 0.0
            if isinstance(action, Proposal):
                await self._make(case, action, storage, read.facts.due)

    def _is_checked_by_prefect(self, case: Case, wanted: Proposal) -> bool:
        """Whether a proposal may be made without a look at the run first, which takes a busy server a second.

        Prefect refuses that a run has crashed where it has ended meanwhile; one that was seen running and has not ended
        has lost its slice whatever else somebody has said of it.
        """
        seen = case.run.state.type if case.run is not None and case.run.state is not None else None
        return isinstance(wanted, Crash) and self.has_turn(case) and seen is StateType.RUNNING

    async def _make(
        self, case: Case, wanted: Proposal, storage: Storage | None = None, due: HandedBack | None = None
    ) -> None:
        is_made = self.has_moved(case, await self.transitions.make(case.id, wanted))
        if isinstance(wanted, Crash) and storage is not None and wanted.of > case.told:
            case.told = wanted.of  # also where the server does not take the state now: the log is not filled with it
            cause = due.failure if due is not None else await _cause(storage, wanted.of)
            await crash_logs.tell(self.log_of(case), storage, wanted.of, cause)
        if is_made and isinstance(wanted, Requeue) and wanted.of and due is not None:
            self._events(case).send(restarted(wanted.of, due.failure))  # who drove may be gone, and silent
        case.due = 0.0 if is_made else time.monotonic() + ANOTHER_SECONDS
        if not is_made:
            await self._look_at_run(case)  # it is not what it was taken for

    def has_moved(self, case: Case, state: State[Any] | None) -> bool:
        """Whether Prefect took it, which its case then knows. state: as it answered."""
        if state is not None:
            case.moved(state, time.monotonic())
        return state is not None

    def _events(self, case: Case) -> SliceEvents:
        name = case.folder.rstrip("/").rpartition("/")[2]
        return SliceEvents(name, case.folder, related(case.run, self.pool) if case.run is not None else [])

    def log_of(self, case: Case) -> logging.LoggerAdapter[Any]:
        """What is said through it is seen in the run's own log."""
        if case.run is None:
            return logging.LoggerAdapter(log, {})
        return flow_run_logger(flow_run=case.run).getChild("slice")


def _of_job(run: FlowRun | None, folder: str) -> FlowRun | None:
    """A run whose job is another one now is gone, as far as this job knows."""
    return None if run is not None and run.infrastructure_pid not in (None, folder) else run


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


async def _cause(storage: Storage, attempt: int) -> Failure | None:
    outcome = await anyio.to_thread.run_sync(history.read_outcome, storage, attempt)
    return outcome.failure if outcome is not None else None


def is_pending(run: FlowRun | None) -> bool:
    """Whether it may be called something that it waits for."""
    return run is not None and run.state is not None and run.state.type is StateType.PENDING
