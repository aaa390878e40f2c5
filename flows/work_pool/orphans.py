"""Which jobs beside the pool's own does nobody drive any more, though somebody did? They are brought to their end.

A driver that is killed leaves its lease behind, renewed no more; one that leaves on purpose takes it along: then nobody
minds. What a flow run of `train` still waits for, whose process is gone, is brought to its end too, and so is the run.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field
from uuid import UUID

import anyio.to_thread
import httpx
from anyio.abc import TaskGroup
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import Cancelled, Completed, Crashed

from prefect_tpu.flows.work_pool.outputs import Found
from prefect_tpu.flows.work_pool.run_reading import Runs
from prefect_tpu.flows.work_pool.transitions import Transitions
from prefect_tpu.flows.work_pool.words import crashed
from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.asked_by import read_asked_by
from prefect_tpu.infra.launcher.fleet import Drive, Ended, Fleet
from prefect_tpu.infra.launcher.lease import Pulse, driver_of
from prefect_tpu.infra.launcher.news import Listener, News
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage, local_folder, open_storage
from prefect_tpu.tasks.belonging import related
from prefect_tpu.tasks.slice_events import SliceEvents, end_of

log = logging.getLogger(__name__)
UNWANTED = (StateType.CANCELLING, StateType.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A job without an end that is no run's of a pool.

    was_driven: whoever drove it is gone without having let go.
    is_driven: somebody drives it.
    run: the state of the run that is to know how it goes; None where there is none.
    is_seen_twice: it was so at an earlier look too.
    """

    was_driven: bool
    is_driven: bool
    run: StateType | None = None
    is_seen_twice: bool = False


def is_abandoned(found: Orphan) -> bool:
    """Whether somebody has to bring it to its end."""
    if found.is_driven:
        return False
    return found.was_driven or (found.is_seen_twice and found.run in (StateType.RUNNING, StateType.CANCELLING))


def state_of(result: JobResult) -> State:
    """How the run ends whose process did not live to see its job's end."""
    how = f"Job {result.job} {result.state} after the process of this run was gone; a worker brought it there."
    if result.state == JobState.SUCCEEDED:
        return Completed(message=how)
    if result.state == JobState.STOPPED:
        return Cancelled(message=how)
    return Crashed(message=f"{how} {crashed(result.failure)}" if result.failure else how)


@dataclass
class Orphans:
    """Sees to them, in the outputs of one pool."""

    fleet: Fleet
    runs: Runs
    transitions: Transitions
    _pulses: dict[str, Pulse] = field(default_factory=dict)
    _undriven: set[str] = field(default_factory=set)  # at the last look

    async def see_to(self, found: Found, tasks: TaskGroup) -> None:
        """Drive it where nobody does; tell its run where it has its end."""
        if found.is_over:
            storage = open_storage(found.folder)
            self._forget(storage.url)
            result = await anyio.to_thread.run_sync(history.read_result, storage)
            if result is not None:
                await self._end_run(storage, result)
        elif (drive := await self._look_at(found.folder)) is not None:
            tasks.start_soon(self._see_off, drive)

    async def end_stray(self, folder: str, other: str) -> None:
        """A job of a pool whose run has the `other` since, by other settings: two would play the same run.

        Nothing happens where the other cannot be seen from here, for both may be one folder, by two names.
        """
        storage = open_storage(folder)
        if not await anyio.to_thread.run_sync(_is_another, storage, other):
            return
        log.info("Job %s is ended: its flow run has another one, %s.", folder, other)
        await anyio.to_thread.run_sync(history.ask_to_stop, storage, "its flow run has another job now")
        self.fleet.start(folder, _tell).nudge()

    async def _look_at(self, folder: str) -> Drive | None:
        """One that has no end; its drive, where one is begun."""
        storage = open_storage(folder)
        asker = await anyio.to_thread.run_sync(read_asked_by, storage)
        seen = await self.runs.read(UUID(asker.flow_run)) if asker is not None else None
        run = seen.state.type if seen is not None and seen.state is not None else None
        found = await anyio.to_thread.run_sync(self._look, storage, run)
        if folder in self.fleet.drives or not is_abandoned(found):
            return None
        log.info("Nobody drives job %s any more, so this worker does.", folder)
        if asker is not None and run in (StateType.RUNNING, None):
            note = contract.write_json(asdict(asker))
            await anyio.to_thread.run_sync(storage.put, layout.ORPHANED, note)
        if run in UNWANTED:
            await anyio.to_thread.run_sync(history.ask_to_stop, storage, "its flow run was cancelled")
        return self.fleet.start(folder, _telling(_events(storage, seen)) if seen is not None else _tell)

    async def _see_off(self, drive: Drive) -> None:
        """Once it is over: the run that it was for has its end too."""
        await drive.ended.wait()
        self._forget(open_storage(drive.folder).url)
        if not isinstance(drive.outcome, Ended):
            return  # whoever looks next finds it as it is
        try:
            await self._end_run(open_storage(drive.folder), drive.outcome.result)
        except (PrefectTpuError, httpx.HTTPError) as exc:
            log.warning("The run of job %s is not told its end yet: %s", drive.folder, exc)  # the next look does

    async def _end_run(self, storage: Storage, result: JobResult) -> None:
        """Of the job's asker, where its process was gone before the end. May be repeated."""
        note = await anyio.to_thread.run_sync(_noted, storage)
        asker = await anyio.to_thread.run_sync(read_asked_by, storage)
        if note is None:
            return
        if asker is None or asker.flow_run == str(note):
            seen = await self.runs.read(note)
            if seen is None:  # of another server, whose workers are to find the note, or deleted
                return
            if seen.state is not None and seen.state.type in (StateType.RUNNING, *UNWANTED[:1]):
                is_cancelled = seen.state.type is StateType.CANCELLING
                await self.transitions.move(note, Cancelled() if is_cancelled else state_of(result))
                _events(storage, seen).send(end_of(result, f"{seen.id} {seen.run_count}"))
        await anyio.to_thread.run_sync(storage.delete, layout.ORPHANED)

    def _forget(self, url: str) -> None:
        self._pulses.pop(url, None)
        self._undriven.discard(url)

    def _look(self, storage: Storage, run: StateType | None) -> Orphan:
        """Who drives on another machine is only seen to be gone by looking twice."""
        pulse = self._pulses.setdefault(storage.url, Pulse(storage, time.monotonic))
        is_driven, is_known = pulse.driver() is not None, storage.url in self._undriven
        if is_driven:
            self._undriven.discard(storage.url)
        else:
            self._undriven.add(storage.url)
        job = history.read_job(storage)
        has_lease = storage.get(layout.LEASE) is not None
        can_tell = driver_of(storage) is None or (job is not None and job.pods is not None)  # else it is not of here
        return Orphan(
            was_driven=has_lease and not is_driven and can_tell, is_driven=is_driven, run=run, is_seen_twice=is_known
        )


def _is_another(storage: Storage, other: str) -> bool:
    """Whether a job lies in the `other` folder, and not the same one."""
    second = open_storage(other)
    if history.read_job(second) is None:
        return False
    here, there = local_folder(storage), local_folder(second)
    return here is None or there is None or not here.samefile(there)


def _noted(storage: Storage) -> UUID | None:
    raw = storage.get(layout.ORPHANED)
    if raw is None:
        return None
    with history.said_where(storage, layout.ORPHANED), contract.reading(layout.ORPHANED):
        return UUID(contract.read_json(raw, layout.ORPHANED)["flow_run"])


def _events(storage: Storage, run: FlowRun) -> SliceEvents:
    """As the process of the run would have sent them."""
    return SliceEvents(storage.url.rpartition("/")[2], storage.url, related(run))


def _telling(events: SliceEvents) -> Listener:
    def tell(news: News) -> None:
        _tell(news)
        events.hear(news)

    return tell


def _tell(news: News) -> None:
    if news.text:
        log.info("job %s, attempt %d: %s", news.job, news.attempt, news.text)
