"""How long is something tried that storage refuses?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from prefect_tpu.infra.errors import PlatformError

LAST_SECONDS = 120.0  # at a program's usual end: its value is worth the wait
ERRAND_SECONDS = 2.0  # for what is under way when the program ends, however little time is left
WRITING_SECONDS = 4.0  # after the grace of a notice: Kubernetes allows 5 s until it kills
SHORTEST_TRY, LOOK_SECONDS = 1.0, 0.1
SHORTEST_PAUSE, LONGEST_PAUSE = 0.25, 2.0

T = TypeVar("T")


def insist(act: Callable[[], T], left: Callable[[], float] | None, *, sleep: Callable[[float], None] = time.sleep) -> T:
    """The first answer of `act`, which may be repeated; what refused it is raised where no time is left.

    left: how many seconds are; a notice that comes meanwhile may make them fewer. None: a disk that refuses will not
        come back, and one that is slow is waited for.
    """
    if left is None:
        return act()
    pause = SHORTEST_PAUSE
    while True:
        try:
            return _answer(act, left)
        except PlatformError:
            if left() <= pause:
                raise
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _answer(act: Callable[[], T], left: Callable[[], float]) -> T:
    """In a thread, for storage that hangs has a longer patience than a host that must leave."""
    answers: SimpleQueue[T | BaseException] = SimpleQueue()
    Thread(target=_put, args=(answers, act), name="last words", daemon=True).start()
    begun = time.monotonic()
    while left() > 0 or time.monotonic() - begun < SHORTEST_TRY:
        with contextlib.suppress(Empty):
            answer = answers.get(timeout=LOOK_SECONDS)
            if isinstance(answer, BaseException):
                raise answer
            return answer
    raise PlatformError("Storage has not answered in the time that was left.")


def _put(answers: SimpleQueue[T | BaseException], act: Callable[[], T]) -> None:
    try:
        answers.put(act())
    except BaseException as exc:
        answers.put(exc)
