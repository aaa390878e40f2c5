"""Who in this process does something with a job, and has its lease meanwhile? One deed at a time, on each job.

A lease that points to nothing is renewed here for as long as its deed takes. One that cannot be given up is kept in
mind: nobody else could ever have it while this process lives.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.launcher.lease import RENEW_SECONDS, Lease
from prefect_tpu.infra.storage import open_storage

log = logging.getLogger(__name__)
LEAVE_SECONDS = 10.0  # for what is given back at an early end
MOST_AWAITED = 10_000


class Claims:
    """The deeds of one process.

    Args:
        tasks: what leases are renewed in.
        clock: seconds, by which leases of others are seen to lapse.
    """

    def __init__(self, tasks: TaskGroup, clock: Callable[[], float]) -> None:
        self._tasks, self._clock = tasks, clock
        self._locks: dict[str, anyio.Lock] = {}
        self._awaited: dict[str, Lease] = {}  # by looking again one sees that whoever holds it renews it no more
        self._unreleased: dict[str, Lease] = {}

    @asynccontextmanager
    async def deed(self, folder: str) -> AsyncIterator[None]:
        """Of deeds on one job one at a time; taking and giving up its lease are such."""
        lock = self._locks.setdefault(folder, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._locks.pop(folder, None)

    @asynccontextmanager
    async def held(self, folder: str, is_driven: Callable[[str], bool]) -> AsyncIterator[bool]:
        """The lease of a job for one deed; whether it is ours.

        is_driven: whether it is ours already, and stays so.
        """
        async with self.deed(folder):
            if is_driven(folder):
                yield True
                return
            await self._release(folder)
            lease = self._awaited.pop(folder, None) or Lease(open_storage(folder), self._clock)
            if await run_sync(lease.take) is None:
                async with self._renewed(folder, lease):
                    yield True
            else:
                self._await(folder, lease)
                yield False

    async def release(self, folder: str) -> None:
        """Give up what could not be given up before. Raises `PlatformError` where it still cannot be."""
        async with self.deed(folder):
            await self._release(folder)

    async def give_up(self, folder: str, lease: Lease) -> None:
        """Within bounds, and inside a deed. It is tried again at the next one where it does not go."""
        self._unreleased[folder] = lease
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            try:
                await self._release(folder)
            except (PrefectTpuError, OSError) as exc:
                log.warning("The lease of %s is not given up yet: %s", folder, exc)

    async def _release(self, folder: str) -> None:
        if (lease := self._unreleased.get(folder)) is not None:
            await run_sync(lease.give_up)
            del self._unreleased[folder]

    def _await(self, folder: str, lease: Lease) -> None:
        self._awaited[folder] = lease
        if len(self._awaited) > MOST_AWAITED:
            self._awaited.pop(next(iter(self._awaited)))

    @asynccontextmanager
    async def _renewed(self, folder: str, lease: Lease) -> AsyncIterator[None]:
        """A lease that is ours, until the end of the block; then it is given up."""
        scope, has_ended = anyio.CancelScope(), anyio.Event()
        self._tasks.start_soon(_keep_renewing, lease, scope, has_ended)
        try:
            yield
        finally:
            scope.cancel()
            with anyio.CancelScope(shield=True):
                await has_ended.wait()
                await self.give_up(folder, lease)


async def _keep_renewing(lease: Lease, scope: anyio.CancelScope, has_ended: anyio.Event) -> None:
    """Until it is told to end, or somebody else has it."""
    try:
        with scope:
            while True:
                await anyio.sleep(RENEW_SECONDS)
                try:
                    if await run_sync(lease.successor) is not None:
                        return
                    await run_sync(lease.renew)
                except (PrefectTpuError, OSError) as exc:
                    log.info("A lease could not be renewed: %s", exc)
    finally:
        has_ended.set()
