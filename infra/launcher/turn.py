"""Is it this process's turn to drive a job, and how does it stay so? The lease, around one driver.

Shared by whoever drives one job for a caller (`driving`) and by whoever drives many (`fleet`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driver import JobDriver
from prefect_tpu.infra.launcher.heartbeat import Heartbeat
from prefect_tpu.infra.launcher.lease import RENEW_SECONDS, Driver, Lease
from prefect_tpu.infra.launcher.moved import end_moved
from prefect_tpu.infra.launcher.news import Listener, News
from prefect_tpu.infra.state import JobState

log = logging.getLogger(__name__)
FOLLOW_SECONDS = 0.5
LET_GO_SECONDS = 60.0
DOUBT_SECONDS = 600.0  # after which it is looked who has the lease, though nobody can have taken it
Rest = Callable[[Driver], Awaitable[bool]]


async def wait_for_turn(
    lease: Lease, driver: JobDriver, tell: Listener, *, goes_on: bool, rest: Rest | None = None
) -> Driver | None:
    """Wait until the lease is ours or the job has its end; begin a new round of one that had ended badly.

    A wish to stop whose driver is gone is obeyed first: whoever runs the job again wants it to go on after that.
    Who waits may ask for a stop too: whoever drives obeys.

    Args:
        lease: this process's claim.
        driver: of the job.
        tell: hears for whom it is waited.
        goes_on: a job that has failed or was stopped begins a new round; else every end is the end.
        rest: waits between two looks, and says whether whoever holds the lease is known to be gone.

    Returns:
        None where the lease is ours, else who has it: the job has its end.
    """
    before = await _result(driver)
    told = is_silent = False
    while (holder := await anyio.to_thread.run_sync(partial(lease.take, is_silent=is_silent))) is not None:
        end = await _result(driver)
        if end is not None and (end != before or end.state == JobState.SUCCEEDED or not goes_on):
            return holder
        if not told:
            text = f"driven by {holder}; waiting for it"
            tell(News(job=driver.job.name, state=JobState.QUEUED, attempt=0, text=text))
            told = True
        await driver.hear_wishes()
        if rest is not None:
            is_silent = await rest(holder)
        else:
            await anyio.sleep(max(FOLLOW_SECONDS, driver.look_seconds))
    await anyio.to_thread.run_sync(end_moved, driver.storage)
    if goes_on:
        await _go_on(driver, before, was_driven=told)
    return None


async def _go_on(driver: JobDriver, before: JobResult | None, *, was_driven: bool) -> None:
    """Begin a new round where the job has ended, unless its end came while we waited: that is the one to report."""
    if not was_driven and before is None and await anyio.to_thread.run_sync(history.is_stop_asked, driver.storage):
        await driver.end_old_stop()
        before = await _result(driver)
    now = await _result(driver)
    if before is not None and now == before:
        await anyio.to_thread.run_sync(history.begin_round, driver.storage, driver.job)
    elif now is None:  # another process may have begun a round since, with other settings
        await anyio.to_thread.run_sync(history.check_stored, driver.storage, driver.job)


async def _result(driver: JobDriver) -> JobResult | None:
    return await anyio.to_thread.run_sync(history.read_result, driver.storage)


@asynccontextmanager
async def turn(
    lease: Lease, driver: JobDriver, tasks: TaskGroup, heartbeat: Heartbeat | None = None
) -> AsyncIterator[None]:
    """While it is entered, the lease is renewed, or `heartbeat` in its stead.

    At its end a wish to stop is obeyed and what is held is given back, whatever becomes of the other. The lease itself
    stays: whoever took it gives it up, at the very last.
    """
    async with AsyncExitStack() as last:  # in reverse order
        renewing = anyio.CancelScope()
        tasks.start_soon(_keep_renewing, lease, driver, renewing, heartbeat)
        last.callback(renewing.cancel)
        last.push_async_callback(_let_go, driver)
        last.push_async_callback(driver.end_if_stopped)
        yield


async def _let_go(driver: JobDriver) -> None:
    """Also where whoever drives is cancelled: what is still held costs money."""
    with anyio.move_on_after(LET_GO_SECONDS, shield=True):
        await driver.let_go()


async def _keep_renewing(
    lease: Lease, driver: JobDriver, scope: anyio.CancelScope, heartbeat: Heartbeat | None
) -> None:
    """Until somebody else took over, because this process stood still for too long: then it gives way."""
    missed, patience = heartbeat.missed if heartbeat is not None else 0, RENEW_SECONDS
    with scope:
        while True:
            if heartbeat is None:
                await anyio.sleep(RENEW_SECONDS)
            else:
                missed = await heartbeat.wait_until_late(missed, at_most=patience)
                patience = DOUBT_SECONDS  # once soon: of two that take over a lapsed lease, the later one has it
            try:
                if (successor := await anyio.to_thread.run_sync(lease.successor)) is not None:
                    driver.give_way(str(successor))
                    return
                if heartbeat is not None:
                    continue
                if not await anyio.to_thread.run_sync(history.is_there, driver.storage):
                    return  # a lease would make it again
                await anyio.to_thread.run_sync(lease.renew)
            except (PrefectTpuError, OSError) as exc:
                log.warning("The lease could not be renewed: %s", exc)
