"""The way from plain calls into the asynchronous driver: one blocking portal, and the lease.

Flows, tasks and the shell use this; so they work in scripts and in notebooks,
where an event loop is running already. News reach the listener in the thread
that waits, so a listener may use what belongs to that thread.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.lease import RENEW_SECONDS, Lease
from prefect_tpu.infra.launcher.moved import end_moved
from prefect_tpu.infra.launcher.news import Listener, News, nobody
from prefect_tpu.infra.launcher.stop_question import AsksToStop, never_stops
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import open_storage

log = logging.getLogger(__name__)
FOLLOW_SECONDS = 0.5
T = TypeVar("T")


class Detach(BaseException):
    """Raised in the waiting thread: let go of the job and leave its hosts running."""


class Driving:
    """A job that this process drives: plain calls, one after the other.

    listen: may be replaced between two calls, so that each caller hears its own news.
    """

    def __init__(self, portal: BlockingPortal, listen: Listener) -> None:
        self.listen = listen
        self._portal = portal
        self._news: queue.SimpleQueue[News | Future[Any]] = queue.SimpleQueue()  # a call's own future ends its news
        self._driver: JobDriver | None = None

    def next_attempt(self) -> int | None:
        """The attempt to carry out next, after its back-off; None once the job has its end."""
        return self._call(self.driver.next_attempt)

    def provision(self) -> str | None:
        """Wait for a slice; what was got, in a person's words."""
        return self._call(self.driver.provision)

    def launch(self) -> AttemptSummary | None:
        """Carry the attempt out; how it ended."""
        return self._call(self.driver.launch)

    def release(self) -> str | None:
        """Give the slice back; a reason where the next attempt keeps it."""
        return self._call(self.driver.release)

    @property
    def driver(self) -> JobDriver:
        assert self._driver is not None, "set before anybody sees this object"
        return self._driver

    @property
    def result(self) -> JobResult | None:
        return self.driver.result

    def tell(self, news: News) -> None:
        """Called in the portal; heard in the thread that waits."""
        self._news.put(news)

    def _call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run it in the portal. An exception raised in this thread meanwhile makes the hosts save and leave."""
        future = self._portal.start_task_soon(function)
        future.add_done_callback(self._news.put)
        try:
            while (news := self._news.get()) is not future:
                if isinstance(news, News):  # else the end of an earlier call that was not heard to its end
                    self.listen(news)
        except Detach:
            future.cancel()
            if self._driver is not None:
                self._portal.call(self._driver.detach)
            raise
        except BaseException:
            if self._driver is None:  # another process may drive for days: whoever must go waits no longer for it
                future.cancel()
                raise
            self._portal.call(self._driver.leave)
            future.result()
            raise
        return future.result()


@contextmanager
def driving(
    job: SliceJob,
    output: str,
    listen: Listener = nobody,
    asks_to_stop: AsksToStop = never_stops,
    *,
    goes_on: bool = True,
) -> Iterator[Driving]:
    """Drive a job whose folder is `output`, once nobody else does.

    A job that has succeeded, or that another process brings to its end
    meanwhile, has its result at once and no attempt left. A failed or stopped
    one goes on with a fresh budget, and may have other settings than before;
    without `goes_on` every end is the end, and a wish to stop is obeyed.

    Raises `Conflict` where a job of this name was asked for differently.
    """
    storage = open_storage(output)
    job = history.enter(storage, job)
    lease = Lease(storage, time.monotonic)
    with start_blocking_portal() as portal, _crew(portal) as tasks:
        driven = Driving(portal, listen)
        backend = open_backend(job.backend)
        driver = JobDriver(job, storage, backend, driven.tell, asks_to_stop, tasks=tasks)
        with ExitStack() as last:  # in reverse order, each whatever becomes of the others
            last.callback(lease.give_up)
            driven._call(lambda: _enter(lease, driver, driven.tell, goes_on))
            driven._driver = driver
            last.callback(portal.call, driver.let_go)
            last.callback(portal.start_task_soon(_keep_renewing, lease, driver).cancel)
            last.callback(portal.call, driver.end_if_stopped)
            yield driven


@contextmanager
def _crew(portal: BlockingPortal) -> Iterator[TaskGroup]:
    """What runs beside the calls, ended with them. It never sees the caller's exception, so it cannot wrap it."""
    group = portal.wrap_async_context_manager(_task_group())
    tasks = group.__enter__()
    try:
        yield tasks
    finally:
        group.__exit__(None, None, None)


@asynccontextmanager
async def _task_group() -> AsyncIterator[TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


async def _enter(lease: Lease, driver: JobDriver, tell: Listener, goes_on: bool) -> None:
    """Wait until the lease is ours or the job has its end; begin a new round of one that had ended badly.

    A wish to stop whose driver is gone is obeyed first: whoever runs the job again wants it to go on after that.
    Who waits may ask for a stop too: whoever drives obeys.
    """
    before = driver.result
    told = False
    while (holder := lease.take()) is not None:
        if (end := driver.result) is not None and (end != before or end.state == JobState.SUCCEEDED or not goes_on):
            return
        if not told:
            text = f"driven by {holder}; waiting for it"
            tell(News(job=driver.job.name, state=JobState.QUEUED, attempt=0, text=text))
            told = True
        await driver.hear_wishes()
        await anyio.sleep(max(FOLLOW_SECONDS, driver.look_seconds))
    end_moved(driver.storage)
    if not goes_on:
        return
    if not told and before is None and history.is_stop_asked(driver.storage):
        await driver.end_old_stop()
        before = driver.result
    if before is not None and driver.result == before:  # an end that came while we waited is the one to report
        history.begin_round(driver.storage, driver.job)
    elif driver.result is None:  # another process may have begun a round since, with other settings
        history.check_stored(driver.storage, driver.job)


async def _keep_renewing(lease: Lease, driver: JobDriver) -> None:
    """Until somebody else took over, because this process stood still for too long: then it gives way."""
    while True:
        await anyio.sleep(RENEW_SECONDS)
        try:
            if (successor := await anyio.to_thread.run_sync(lease.successor)) is not None:
                driver.give_way(str(successor))
                return
            if not await anyio.to_thread.run_sync(history.is_there, driver.storage):  # a lease would make it again
                return
            await anyio.to_thread.run_sync(lease.renew)
        except PrefectTpuError as exc:
            log.warning("The lease could not be renewed: %s", exc)


def drive_to_end(driven: Driving) -> JobResult:
    """All attempts, one after the other, without Prefect."""
    while driven.next_attempt() is not None:
        driven.provision()
        try:
            driven.launch()
        finally:
            driven.release()
    result = driven.result
    assert result is not None, "no attempt is left only once the job has its end"
    return result
