"""The way from plain calls into the asynchronous driver: one blocking portal, and the lease.

Flows, tasks and the shell use this; so they work in scripts and in notebooks,
where an event loop is running already. News reach the listener in the thread
that waits, so a listener may use what belongs to that thread.
"""

from __future__ import annotations

import queue
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.launcher.news import Listener, News, nobody
from prefect_tpu.infra.launcher.permits import UNCOUNTED, Permits
from prefect_tpu.infra.launcher.stop_question import AsksToStop, never_stops
from prefect_tpu.infra.launcher.turn import turn, wait_for_turn
from prefect_tpu.infra.storage import open_storage

T = TypeVar("T")


class Detach(BaseException):
    """Raised in the waiting thread: let go of the job and leave its hosts running."""


class Driving:
    """A job that this process drives: plain calls, one after the other.

    listen: may be replaced between two calls, so that each caller hears its own news.
    witness: hears all news, whoever else does; it must not raise.
    """

    def __init__(self, portal: BlockingPortal, listen: Listener, witness: Listener = nobody) -> None:
        self.listen, self._witness = listen, witness
        self._portal = portal
        self._news: queue.SimpleQueue[News | Future[Any]] = queue.SimpleQueue()  # a call's own future ends its news
        self._driver: JobDriver | None = None

    def next_attempt(self) -> int | None:
        """The attempt to carry out next, after its back-off; None once the job has its end."""
        return self._call(self.driver.next_attempt)

    def provision(self) -> str | None:
        """Wait for a slice; what was got, in a person's words."""
        return self._call(self.driver.provision)

    def refusal(self) -> Failure | None:
        """Why there is nothing to get any more, where the job ends by that."""
        return self._call(self.driver.refusal)

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
                    self._witness(news)
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
    witness: Listener = nobody,
    permits: Permits = UNCOUNTED,
) -> Iterator[Driving]:
    """Drive a job whose folder is `output`, once nobody else does.

    A job that has succeeded, or that another process brings to its end
    meanwhile, has its result at once and no attempt left. A failed or stopped
    one goes on with a fresh budget, and may have other settings than before;
    without `goes_on` every end is the end, and a wish to stop is obeyed.
    `witness` hears all news, also while somebody else listens; it must not raise.
    `permits` counts the chips that jobs have.

    Raises `Conflict` where a job of this name was asked for differently.
    """
    storage = open_storage(output)
    job = history.enter(storage, job)
    lease = Lease(storage, time.monotonic)
    with start_blocking_portal() as portal, _crew(portal) as tasks:
        driven = Driving(portal, listen, witness)
        backend = open_backend(job.backend)
        driver = JobDriver(job, storage, backend, driven.tell, asks_to_stop, tasks=tasks, permits=permits)
        with ExitStack() as last:  # in reverse order, each whatever becomes of the others
            last.callback(lease.give_up)
            driven._call(lambda: wait_for_turn(lease, driver, driven.tell, goes_on=goes_on))
            driven._driver = driver
            ours = portal.wrap_async_context_manager(turn(lease, driver, tasks))
            ours.__enter__()
            last.callback(ours.__exit__, None, None, None)  # it never sees the caller's exception either
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
