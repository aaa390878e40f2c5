"""Which processes belong to an attempt on this machine?

Every process of an attempt, however deep, inherits a mark in its environment.
The mark, not the process id, says whose a process is: ids are used again.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError

KILL_SECONDS = 30.0  # a process in an uninterruptible read ends only after it
LOOK_SECONDS = 0.02


@contextlib.contextmanager
def notice_withheld() -> Iterator[None]:
    """What is started inside begins with SIGTERM blocked: a notice waits until its receiver can hear it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_alive(pid: int, mark: str) -> bool:
    """Whether this very process of the attempt still runs."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(Env.ATTEMPT) == mark
    except psutil.Error:
        return False


def marked(mark: str) -> Iterator[psutil.Process]:
    """All live processes that carry the mark."""
    for process in psutil.process_iter():
        if _mark_of(process) == mark:
            yield process


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The processes of one attempt on this machine; `since` is when the first of them began."""

    mark: str
    pids: tuple[int, ...]
    since: float


def marked_below(output: str) -> list[Marked]:
    """All attempts of the jobs in an output that have live processes."""
    found: dict[str, dict[int, float]] = {}
    for process in psutil.process_iter():
        mark = _mark_of(process)
        if mark is not None and mark.startswith(f"{output}/"):
            with contextlib.suppress(psutil.Error):  # it ended since
                found.setdefault(mark, {})[process.pid] = process.create_time()
    return [
        Marked(mark=mark, pids=tuple(born), since=min(born.values())) for mark, born in sorted(found.items()) if born
    ]


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(Env.ATTEMPT)
    except (psutil.Error, OSError):
        return None


def kill_marked(mark: str) -> int:
    """Kill every process that carries the mark, until none is left; returns how many there were.

    Raises `PlatformError` where one is still there after `KILL_SECONDS`.
    """
    seen: set[int] = set()
    give_up = time.monotonic() + KILL_SECONDS
    while found := list(marked(mark)):
        for process in found:
            seen.add(process.pid)
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if time.monotonic() > give_up:
            raise PlatformError(f"Processes {sorted(p.pid for p in found)} do not end after SIGKILL: look at them.")
        time.sleep(LOOK_SECONDS)
    return len(seen)
