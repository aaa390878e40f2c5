"""Which jobs does this process drive, all in one event loop? Many drivers, each with its lease.

The worker of a `tpu-slice` pool has one. Who drives one job for somebody that waits uses `driving`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from prefect_tpu.infra.backends import crowd, open_backend
from prefect_tpu.infra.backends.base import Backend
from prefect_tpu.infra.backends.crowd import Crowd
from prefect_tpu.infra.errors import NoSuchJob, PlatformError
from prefect_tpu.infra.gcp.sharing import Shared
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.claims import Claims
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.launcher.heartbeat import Heartbeat, Heartbeats, Others
from prefect_tpu.infra.launcher.lease import Driver, Lease, output_of
from prefect_tpu.infra.launcher.news import Listener, nobody
from prefect_tpu.infra.launcher.permits import UNCOUNTED, Permits
from prefect_tpu.infra.launcher.turn import FOLLOW_SECONDS, turn, wait_for_turn
from prefect_tpu.infra.storage import Storage, open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The job has its end, which this drive or another process wrote."""

    result: JobResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Somebody else drives the job now, because this process stood still for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The drive cannot go on; the job has no end. Started again it begins where it was."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Left:
    """The fleet let go of it; its hosts run on."""


Outcome = Ended | HandedBack | Lost | Broken | Left


class Drive:
    """One job in this process's hands, or soon.

    folder: the job's, as `start` was given it.
    ended: set when the drive is over, and its lease given up.
    outcome: how it was; None before.
    """

    def __init__(self, folder: str, listen: Listener) -> None:
        self.folder, self.listen = folder, listen
        self.ended = anyio.Event()
        self.outcome: Outcome | None = None
        self._is_driving = False
        self._since = 0.0
        self._driver: JobDriver | None = None
        self._scope = anyio.CancelScope()
        self._nudged = anyio.Event()

    @property
    def is_driving(self) -> bool:
        """Whether the job's lease is ours; before that the drive waits for whoever has it."""
        return self._is_driving

    @property
    def seconds(self) -> float:
        """For which the job's lease has been ours; 0 while it is not."""
        return anyio.current_time() - self._since if self._is_driving else 0.0

    def nudge(self) -> None:
        """Look at the job's files now, for a stop was asked for: the more jobs there are, the later that is seen."""
        if self._driver is not None:
            self._driver.nudge()
        self._nudged.set()


class Fleet:
    """The jobs that one process drives.

    Args:
        tasks: what the drives run in. None of them ever raises into it.
        clock: seconds, by which leases of others are seen to lapse.
        backends: a backend's name → the backend.
        permits: who counts the chips that jobs have.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        clock: Callable[[], float] = time.monotonic,
        backends: Callable[[str], Backend] = open_backend,
        permits: Permits = UNCOUNTED,
    ) -> None:
        self._tasks, self._clock, self._backends, self._permits = tasks, clock, backends, permits
        self._opened: dict[str, Backend] = {}
        self._drives: dict[str, Drive] = {}
        self._has_left = False
        self._shared, self._crowd = Shared(), Crowd()
        self._claims = Claims(tasks, clock)
        self._heartbeats, self._others = Heartbeats(tasks, clock), Others(tasks, clock)

    @property
    def drives(self) -> Mapping[str, Drive]:
        """Folder → its drive, of all that are not over, also those that wait for their turn."""
        return MappingProxyType(self._drives)

    def start(
        self,
        folder: str,
        listen: Listener = nobody,
        *,
        hands_back: bool = False,
        after: int = 0,
    ) -> Drive:
        """Begin to drive the job of this folder once nobody else does. Returns at once.

        Started again while its drive is not over, that one is returned as it is.

        Args:
            folder: the job's, as a URL or a path.
            listen: hears all news, in the event loop, so it must not block.
            hands_back: the drive is over, as `HandedBack`, when an attempt that had a slice has ended with a failure
                after which another may follow, also one that had ended before the lease was ours.
            after: of attempts up to this number whoever starts the drive has done what was to be done: it waits until
                the next one is due, and begins it.
        """
        if (drive := self._drives.get(folder)) is None:
            drive = self._drives[folder] = Drive(folder, listen)
            self._tasks.start_soon(self._carry_out, drive, after if hands_back else None)
        return drive

    @asynccontextmanager
    async def hold(self, folder: str) -> AsyncIterator[Storage | None]:
        """The job's lease, for a deed, without driving; None where somebody else has it.

        It is renewed until the deed is done. Asked again and again, it takes over a lease that lapsed.

        Where this process drives the job it is held already; the drive keeps its lease until the deed is done, so
        never wait for the end of a drive inside.
        """
        async with self._claims.held(folder, self._is_driving) as is_ours:
            yield open_storage(folder) if is_ours else None

    async def leave(self) -> None:
        """Let go of all jobs: hosts run on, and whoever comes next adopts them. Nothing can be started after that."""
        self._has_left = True
        await self.let_go()
        await self._shared.close()

    async def let_go(self) -> None:
        """Drive none of the jobs any more that are driven now."""
        left = list(self._drives.values())
        for drive in left:
            drive._scope.cancel()
        for drive in left:
            await drive.ended.wait()

    def _is_driving(self, folder: str) -> bool:
        drive = self._drives.get(folder)
        return drive is not None and drive.is_driving

    async def _carry_out(self, drive: Drive, after: int | None) -> None:
        try:
            with drive._scope, self._shared.used(), self._crowd.used():
                if not self._has_left:
                    drive.outcome = await self._drive(drive, after)
        except Exception as exc:
            drive.outcome = Broken(error=_first(exc))
        finally:
            drive._is_driving = False
            drive.outcome = drive.outcome or Left()
            self._drives.pop(drive.folder, None)
            drive.ended.set()

    async def _drive(self, drive: Drive, after: int | None) -> Outcome:
        """Until the drive is over. What runs beside it ends with it."""
        storage = open_storage(drive.folder)
        job = await anyio.to_thread.run_sync(history.read_job, storage)
        if job is None:
            raise NoSuchJob(f"There is no job in {storage.url}: it was moved or deleted.")
        await self._claims.release(drive.folder)
        async with self._heartbeat(job, storage) as heartbeat, anyio.create_task_group() as crew:
            lease = Lease(storage, self._clock, None if heartbeat is None else heartbeat.name)
            driver = JobDriver(job, storage, self._backend(job), drive.listen, tasks=crew, permits=self._permits)
            drive._driver = driver
            try:
                rest = partial(self._rest, drive, driver, storage)
                if await wait_for_turn(lease, driver, drive.listen, goes_on=False, rest=rest) is None:
                    drive._is_driving, drive._since = True, anyio.current_time()
                    async with turn(lease, driver, crew, heartbeat):
                        early = await _in_turn(driver, after)
                    outcome: Outcome = early or await _end_of(storage)
                else:
                    outcome = await _end_of(storage)
            finally:
                with anyio.CancelScope(shield=True):
                    async with self._claims.deed(drive.folder):  # whose deeds are bounded
                        drive._is_driving = False
                        await self._claims.give_up(drive.folder, lease)
            crew.cancel_scope.cancel()
        return outcome

    async def _rest(self, drive: Drive, driver: JobDriver, storage: Storage, holder: Driver) -> bool:
        """Between two looks at a lease that somebody else holds; whether they are known to be gone."""
        seconds = max(FOLLOW_SECONDS, driver.look_seconds)
        if (heartbeat := holder.heartbeat) is None:
            await anyio.sleep(crowd.idle(seconds))
            return False
        is_silent = False

        async def listen() -> None:
            nonlocal is_silent
            is_silent = await self._others.wait_until_silent(output_of(storage), heartbeat, crowd.idle(seconds))
            drive._nudged.set()

        async with anyio.create_task_group() as ears:
            ears.start_soon(listen)
            await drive._nudged.wait()
            ears.cancel_scope.cancel()
        drive._nudged = anyio.Event()
        return is_silent

    def _backend(self, job: SliceJob) -> Backend:
        """One for all jobs in clusters; one each for those of this machine, which remembers the processes it starts."""
        if job.backend == "local":
            return self._backends(job.backend)
        if job.backend not in self._opened:
            self._opened[job.backend] = self._backends(job.backend)
        return self._opened[job.backend]

    @asynccontextmanager
    async def _heartbeat(self, job: SliceJob, storage: Storage) -> AsyncIterator[Heartbeat | None]:
        """What leases point to; None where they are renewed themselves, as hosts of this machine expect of theirs."""
        if job.backend == "local":
            yield None
        else:
            async with self._heartbeats.of(output_of(storage)) as heartbeat:
                yield heartbeat


async def _in_turn(driver: JobDriver, after: int | None) -> HandedBack | Lost | None:
    """None once the job has its end."""
    try:
        return await _attempts(driver, after)
    except PlatformError:
        if driver.successor is None:
            raise
        return Lost()


async def _attempts(driver: JobDriver, after: int | None) -> HandedBack | None:
    """One after the other, until the job has its end or is handed back, which nobody wants without `after`."""
    if after is not None and (back := await driver.handed_back()) is not None and back.attempt > after:
        return back
    while await driver.next_attempt() is not None:
        await driver.provision()
        try:
            ended = await driver.launch()
        finally:
            await driver.release()
        if after is not None and ended is not None and (back := await driver.handed_back()) is not None:
            return back
    return None


async def _end_of(storage: Storage) -> Ended:
    result = await anyio.to_thread.run_sync(history.read_result, storage)
    if result is None:
        raise PlatformError("The job's end was deleted while it was read: start it again.")
    return Ended(result=result)


def _first(exc: Exception) -> Exception:
    """The error itself, where what runs beside a drive raised it."""
    while isinstance(exc, ExceptionGroup):
        exc = exc.exceptions[0]
    return exc
