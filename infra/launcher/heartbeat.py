"""Does a process that drives many jobs of an output still live? It writes one object there, again and again.

So the lease of each job is written once and points to it, however long the job is driven.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.launcher.lease import LAPSED_SECONDS, RENEW_SECONDS
from prefect_tpu.infra.storage import Storage

log = logging.getLogger(__name__)
LATE_SECONDS = LAPSED_SECONDS - RENEW_SECONDS  # nobody else takes this process for dead before
STALE_SECONDS = 86_400.0  # no process that lives is silent for so long
LEAVE_SECONDS = 10.0


class Heartbeat:
    """This process's sign of life in one output.

    name: by which leases point to it.
    missed: how often it came so late that somebody may have taken over what this process drives.
    """

    def __init__(self, output: Storage, clock: Callable[[], float]) -> None:
        self.name, self.missed = uuid.uuid4().hex, 0
        self._output, self._clock = output, clock
        self._beats = 0
        self._last: float | None = None
        self._was_late = anyio.Event()
        self._lock = anyio.Lock()

    async def begin(self) -> None:
        """Return once it has been written. Raises `PlatformError` where it cannot be."""
        async with self._lock:
            if self._last is None:
                await run_sync(self._clear_away)
                await self._beat()

    async def go_on(self) -> None:
        """For ever."""
        while True:
            await anyio.sleep(RENEW_SECONDS)
            try:
                async with self._lock:
                    await self._beat()
            except Exception as exc:  # whatever a network or a disk says: others take over if it lasts
                log.warning("The sign of life of this process could not be written: %s", exc)

    async def end(self) -> None:
        """Nothing is driven here any more."""
        await run_sync(self._output.delete, layout.heartbeat(self.name))

    async def wait_until_late(self, missed: int, at_most: float) -> int:
        """Return when it has come late more often than so, or after a while: how often it has by then."""
        with anyio.move_on_after(at_most):
            while self.missed == missed:
                await self._was_late.wait()
        return self.missed

    async def _beat(self) -> None:
        self._beats += 1
        await run_sync(self._output.put, layout.heartbeat(self.name), b"%d" % self._beats)
        now = self._clock()
        if self._last is not None and now - self._last > LATE_SECONDS:
            self.missed += 1
            self._was_late.set()
            self._was_late = anyio.Event()
        self._last = now

    def _clear_away(self) -> None:
        """What processes that were killed left."""
        for name, facts in self._output.facts(layout.HEARTBEATS).items():
            if time.time() - facts.changed > STALE_SECONDS:
                self._output.delete(name)


class Others:
    """Do processes live that hold leases which point to their heartbeats? Each is looked at once, for all who ask."""

    def __init__(self, tasks: TaskGroup, clock: Callable[[], float]) -> None:
        self._tasks, self._clock = tasks, clock
        self._watched: dict[tuple[str, str], _Watched] = {}

    async def wait_until_silent(self, output: Storage, name: str, at_most: float) -> bool:
        """Return when that one is gone or has stood still for as long as a lease lasts, or after a while.

        Returns:
            Whether it is gone.
        """
        key = output.url, name
        if (watched := self._watched.get(key)) is None:
            watched = self._watched[key] = _Watched(output, name, self._clock)
            self._tasks.start_soon(self._look, key, watched)
        watched.users += 1
        try:
            with anyio.move_on_after(at_most):
                await watched.is_silent.wait()
            return watched.is_silent.is_set()
        finally:
            watched.users -= 1

    async def _look(self, key: tuple[str, str], watched: _Watched) -> None:
        while watched.users and not watched.is_silent.is_set():
            try:
                if await run_sync(watched.look):
                    watched.is_silent.set()
            except Exception as exc:  # what cannot be read now says nothing of whoever writes it
                log.info("Whether another process lives cannot be seen now: %s", exc)
                watched.forget()
            await anyio.sleep(RENEW_SECONDS)
        del self._watched[key]


class _Watched:
    """A heartbeat of another process."""

    def __init__(self, output: Storage, name: str, clock: Callable[[], float]) -> None:
        self.users, self.is_silent = 0, anyio.Event()
        self._output, self._name, self._clock = output, name, clock
        self._seen: bytes | None = None
        self._seen_at: float | None = None

    def look(self) -> bool:
        """Whether it is known to be gone."""
        seen = self._output.get(layout.heartbeat(self._name))
        if self._seen_at is None or seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        return seen is None or self._clock() - self._seen_at > LAPSED_SECONDS

    def forget(self) -> None:
        """Count anew from the next look."""
        self._seen_at = None


class Heartbeats:
    """One for each output in which a process drives jobs, for as long as it does.

    Args:
        tasks: what they run in.
        clock: seconds.
    """

    def __init__(self, tasks: TaskGroup, clock: Callable[[], float]) -> None:
        self._tasks, self._clock = tasks, clock
        self._beating: dict[str, _Beating] = {}

    @asynccontextmanager
    async def of(self, output: Storage) -> AsyncIterator[Heartbeat]:
        """The one in this output. Raises `PlatformError` where it cannot be written."""
        if (found := self._beating.get(output.url)) is None:
            found = self._beating[output.url] = _Beating(Heartbeat(output, self._clock))
            self._tasks.start_soon(found.run)
        found.users += 1
        try:
            await found.heartbeat.begin()
            yield found.heartbeat
        finally:
            found.users -= 1
            if not found.users:
                del self._beating[output.url]
                await found.stop()


class _Beating:
    """A heartbeat, and those who live by it."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self.heartbeat, self.users = heartbeat, 0
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        with self._scope:
            await self.heartbeat.go_on()

    async def stop(self) -> None:
        self._scope.cancel()
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            try:
                await self.heartbeat.end()
            except PrefectTpuError as exc:
                log.warning("%s It is cleared away by whoever comes next.", exc)
