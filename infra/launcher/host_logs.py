"""What did the hosts of a job write, and what do they write now? Over all its attempts, without driving it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

import anyio

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.status import StatusReader, read_status
from prefect_tpu.infra.state import HostPhase
from prefect_tpu.infra.storage import Storage

LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which lines.

    hosts: all of them where it is None.
    attempt: the newest where it is None.
    follow: go on with what is written, and with later attempts where none was named, to the job's end.
    tail: how many last lines of each host to begin with; all where it is None.
    outlasts_drivers: while following, wait for a later attempt also where nobody drives: the caller sees to that.
    """

    hosts: tuple[int, ...] | None = (0,)
    attempt: int | None = None
    follow: bool = False
    tail: int | None = None
    outlasts_drivers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of one host in one attempt."""

    attempt: int
    host: int
    text: str


async def lines(storage: Storage, wanted: Wanted) -> AsyncGenerator[Line, None]:
    """The lines, in the order each host wrote them. Raises `UsageError` for an attempt or host that is not there."""
    job = history.read_job(storage)
    backend = open_backend(job.backend if job else "local")
    pause = max(LOOK_SECONDS, backend.look_seconds)
    number, tail = _first(storage, wanted), wanted.tail
    while number is not None or wanted.follow:
        if number is not None:
            plan = history.read_plan(storage, number)
            _check_hosts(wanted, plan.hosts, number)
            goes_on = wanted.follow and not _is_left(storage, wanted)
            written = backend.logs(backend.attach(plan), wanted.hosts, goes_on, tail)
            async with aclosing(written):
                async for line in written:
                    yield Line(attempt=number, host=line.host, text=line.text)
            tail = None  # of later attempts nothing was missed
        if not wanted.follow or wanted.attempt is not None:
            return
        number = await _next(storage, wanted, pause, after=number or 0)
        if number is None:
            return


def _first(storage: Storage, wanted: Wanted) -> int | None:
    numbers = history.attempt_numbers(storage)
    if wanted.attempt is None or wanted.attempt in numbers:
        return wanted.attempt or max(numbers, default=None)
    there = f"It has attempts {numbers[0]} to {numbers[-1]}." if numbers else "It has not begun."
    raise UsageError(f"The job in {storage.url} has no attempt {wanted.attempt}. {there}")


def _check_hosts(wanted: Wanted, hosts: int, attempt: int) -> None:
    for host in wanted.hosts or ():
        if not 0 <= host < hosts:
            raise UsageError(f"Attempt {attempt} has no host {host}: it has {hosts}, counted from 0.")


def _is_left(storage: Storage, wanted: Wanted) -> bool:
    """Whether nobody writes and nobody is there to begin: a driver may be killed between a plan and its hosts."""
    if wanted.outlasts_drivers:
        return False
    seen = read_status(storage.url)
    return seen.is_abandoned and all(host.phase is not HostPhase.RUNNING for host in seen.hosts)


async def _next(storage: Storage, wanted: Wanted, pause: float, *, after: int) -> int | None:
    """Wait for a later attempt; None once the job has its end, or nobody is there to begin one."""
    reader = StatusReader(storage)
    while True:
        later = [number for number in history.attempt_numbers(storage) if number > after]
        if later:
            return later[0]
        seen = reader.read()
        if seen.state.is_final or (seen.is_abandoned and not wanted.outlasts_drivers):
            return None
        await anyio.sleep(pause)
