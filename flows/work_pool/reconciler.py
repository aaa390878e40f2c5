"""Who keeps Prefect's picture of runs and that of their jobs alike? A loop that looks, and acts on what it sees.

Nothing is remembered that cannot be found out again, so it may be killed at any moment, and several may run at once.
"""

from __future__ import annotations

import logging
import math
import time
from uuid import UUID

import anyio
import anyio.to_thread
import httpx
from anyio.abc import TaskGroup
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, WorkPool

from prefect_tpu.flows.work_pool.acting import Hands
from prefect_tpu.flows.work_pool.cases import Case, Cases
from prefect_tpu.flows.work_pool.clearing import keep_clearing
from prefect_tpu.flows.work_pool.hearing import hear_of_runs
from prefect_tpu.flows.work_pool.looking import Looking
from prefect_tpu.flows.work_pool.naming import Naming
from prefect_tpu.flows.work_pool.orphans import Orphans
from prefect_tpu.flows.work_pool.outputs import Found, Outputs, is_folder
from prefect_tpu.flows.work_pool.run_reading import Runs
from prefect_tpu.flows.work_pool.slots import TICK_SECONDS, Slots
from prefect_tpu.flows.work_pool.tables import Tables
from prefect_tpu.flows.work_pool.transitions import Transitions
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.job import name_from_run
from prefect_tpu.infra.launcher.asked_by import AskedBy, read_asked_by
from prefect_tpu.infra.launcher.fleet import Broken, Drive, Fleet
from prefect_tpu.infra.storage import open_storage

log = logging.getLogger(__name__)
SHORTEST_SECONDS = 0.05  # between two rounds of acting: what happens at once is seen together
SCAN_SECONDS = 60.0  # between two looks at the pool's outputs
DEED_SECONDS = 300.0  # for what is done about one run; it is begun anew then
MOST_AT_ONCE = 16


class Reconciler:
    """Sees to all runs of one pool, and drives their jobs.

    Args:
        client: of the Prefect server.
        pool: whose runs they are.
        fleet: what drives jobs.
        name: of the worker that this runs in, for its log.
    """

    def __init__(self, client: PrefectClient, pool: WorkPool, fleet: Fleet, name: str) -> None:
        self._client, self._pool, self._fleet, self._worker = client, pool, fleet, name
        self._runs = Runs(client, pool.id)
        self._outputs = Outputs(client, pool)
        self._cases = Cases()
        self._naming = Naming(self._cases.open)
        transitions = Transitions(client)
        self._hands = Hands(
            runs=self._runs,
            transitions=transitions,
            tables=Tables(client),
            fleet=fleet,
            pool=pool,
            started=self._started,
            changed=self._naming.is_due,
            failed=self._is_due,
        )
        self._orphans = Orphans(fleet=fleet, runs=self._runs, transitions=transitions)
        self._looking = Looking(
            runs=self._runs,
            cases=self._cases,
            saw=self._saw,
            gone=lambda case: self._saw_state(case, None),
            wake=lambda: self._wake.set(),
        )
        self._wake = anyio.Event()
        self._folders: set[str] = set()
        self._unread: set[str] = set()
        self._watched: set[Drive] = set()
        self._tasks: TaskGroup | None = None
        self._limiter = anyio.CapacityLimiter(MOST_AT_ONCE)

    async def run(self) -> None:
        """For ever; cancel it. What one run or the server answers ends it never."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._naming.keep_naming, self._hands)
            tasks.start_soon(hear_of_runs, self._pool, self._looking.heard)
            tasks.start_soon(self._keep_scanning)
            tasks.start_soon(self._keep_slots)
            tasks.start_soon(keep_clearing, self._outputs, self._fleet)
            tasks.start_soon(self._looking.keep_looking)
            tasks.start_soon(self._looking.keep_hearing)
            await self._keep_attending()

    def nudge(self, folder: str) -> None:
        """A job was just written down there, or is to stop."""
        if (drive := self._fleet.drives.get(folder)) is not None:
            drive.nudge()
        self._folders.add(folder)
        self._wake.set()

    async def _keep_attending(self) -> None:
        """Act on what is due. It waits for no answer of the server: one about hundreds of runs takes its time."""
        while True:
            self._wake = anyio.Event()
            self._take_in_folders()
            self._attend()
            await anyio.sleep(SHORTEST_SECONDS)
            with anyio.move_on_after(max(0.0, self._next() - time.monotonic())):
                await self._wake.wait()

    def _next(self) -> float:
        """When something is due if nothing happens."""
        return min((case.due for case in self._cases.open.values() if not case.is_busy), default=math.inf)

    def _saw(self, run: FlowRun) -> None:
        if self._cases.is_over(run):
            return
        pid = run.infrastructure_pid
        if pid is not None and not is_folder(pid):  # of a process of somebody else's
            return
        folder = pid or self._cases.folder_of(run.id) or self._outputs.folder_of(name_from_run(str(run.id)))
        if pid is not None:
            self._outputs.heard_of(pid)
        self._saw_state(self._cases.at(run.id, folder), run)

    def _saw_state(self, case: Case, run: FlowRun | None) -> None:
        if case.saw(run, time.monotonic()):
            case.is_missed = case.is_busy

    def _take_in_folders(self) -> None:
        """Jobs that somebody has just written down. An output that does not answer holds up no other run."""
        assert self._tasks is not None, "set before anything is looked at"
        folders, self._folders = self._folders, set()
        for folder in folders:
            self._outputs.heard_of(folder)  # what cannot be read now is found by looking
            self._tasks.start_soon(self._take_in_folder, folder)

    async def _take_in_folder(self, folder: str) -> None:
        """Whose is the job that was written down there?"""
        try:
            asker = await self._asker(folder)
            if asker is None or asker.work_pool != str(self._pool.id):
                return
            run = UUID(asker.flow_run)
            seen = await self._runs.read(run)
        except (PrefectTpuError, httpx.HTTPError, ValueError) as exc:
            log.info("Whose job %s is cannot be read now: %s", folder, exc)
            return
        self._cases.over.pop(run, None)
        case = self._cases.at(run, folder)
        self._saw_state(case, seen)
        self._is_due(case)

    async def _asker(self, folder: str) -> AskedBy | None:
        async with self._limiter:
            return await anyio.to_thread.run_sync(lambda: read_asked_by(open_storage(folder)))

    def _attend(self) -> None:
        """Begin to act on all that is due."""
        assert self._tasks is not None, "set before anything is looked at"
        now = time.monotonic()
        for case in [case for case in self._cases.open.values() if case.due <= now and not case.is_busy]:
            case.is_busy = True
            self._tasks.start_soon(self._see_to, case)

    async def _see_to(self, case: Case) -> None:
        try:
            async with self._limiter:
                with anyio.fail_after(DEED_SECONDS):
                    if await self._hands.see_to(case) and not case.is_missed:
                        self._cases.close(case)
            case.errors = 0
        except Exception as exc:  # of one run: the others are seen to
            self._failed(case, exc)
        finally:
            case.is_busy = False
            if case.is_missed:
                case.is_missed, case.due = False, 0.0
            self._wake.set()

    def _failed(self, case: Case, exc: Exception) -> None:
        case.errors += 1
        case.rest(time.monotonic(), case.errors)
        if case.errors == 1:
            is_known = isinstance(exc, PrefectTpuError | httpx.HTTPError | TimeoutError | OSError)
            log.warning(
                "Nothing could be done about flow run %s: %s. Tried again.", case.id, exc or "it took too long",
                exc_info=None if is_known else exc,
            )  # fmt: skip

    def _is_due(self, case: Case) -> None:
        case.due, case.is_missed = 0.0, case.is_busy
        self._wake.set()

    def _started(self, case: Case, drive: Drive) -> None:
        if drive not in self._watched:
            assert self._tasks is not None, "set before anything is driven"
            self._watched.add(drive)
            self._tasks.start_soon(self._watch, case, drive)

    async def _watch(self, case: Case, drive: Drive) -> None:
        """Until a drive is over: then its job is to be read."""
        await drive.ended.wait()
        self._watched.discard(drive)
        case.due, case.is_missed = 0.0, case.is_busy
        if isinstance(drive.outcome, Broken):
            case.breaks += 1
            case.rest(time.monotonic(), case.breaks)
            if case.breaks == 1:
                why = str(drive.outcome.error).rstrip(".")
                log.warning("The job of flow run %s is not driven: %s. Tried again.", case.id, why)
                self._hands.log_of(case).warning("Nobody drives the job now: %s. Tried again.", why)
        else:
            case.breaks = 0
        self._wake.set()

    async def _keep_slots(self) -> None:
        """What runs hold that wait for slices which we look for."""
        slots = Slots(self._client)
        while True:
            ours = [case for case in self._cases.open.values() if self._hands.has_turn(case)]
            await slots.renew(case.run for case in ours if case.run is not None)
            await anyio.sleep(TICK_SECONDS)

    async def _keep_scanning(self) -> None:
        """Jobs of the pool's outputs that no run tells of: of deleted runs, and of those that ended meanwhile."""
        is_told = False
        while True:
            try:
                for found in await self._outputs.scan(self._cases.folders()):
                    await self._take_in(found)
                is_told = False
            except Exception as exc:  # whatever the pool's settings or its output say: it is looked again
                if not is_told:
                    log.warning("The jobs of work pool %r cannot be looked for: %s", self._pool.name, exc)
                is_told = True
            await anyio.sleep(SCAN_SECONDS)

    async def _take_in(self, found: Found) -> None:
        """One that cannot be read hides no other."""
        try:
            await self._found(found)
            self._unread.discard(found.folder)
        except (PrefectTpuError, httpx.HTTPError, ValueError) as exc:
            self._outputs.over.discard(found.folder)
            if found.folder not in self._unread:
                log.warning("Nothing could be done about job %s: %s", found.folder, exc)
            self._unread.add(found.folder)

    async def _found(self, found: Found) -> None:
        asker = await self._asker(found.folder)
        if asker is None or asker.work_pool is None:
            assert self._tasks is not None, "set before anything is looked for"
            await self._orphans.see_to(found, self._tasks)
        elif asker.work_pool == str(self._pool.id):
            await self._found_ours(UUID(asker.flow_run), found.folder)

    async def _found_ours(self, run: UUID, folder: str) -> None:
        if self._cases.folder_of(run) == folder:
            return
        seen = await self._runs.read(run)
        other = seen.infrastructure_pid if seen is not None else None
        if other is not None and other != folder and is_folder(other):
            self._outputs.heard_of(other)
            await self._orphans.end_stray(folder, other)
        elif run not in self._cases.open and (seen is None or not self._cases.is_over(seen)):
            self._saw_state(self._cases.at(run, folder), seen)
            self._wake.set()
