"""How often may one job of many be looked at, where nothing has happened? So that all of them together ask little.

Whoever drives a single job is alone, and looks as often as its backend allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

IDLE_LOOKS_A_SECOND = 6.0  # of one kind, over all jobs of a process; three lists of a bucket in all
RESTLESS_WAKES_A_SECOND = 50.0  # where something has happened that may be about any of them


class Crowd:
    """The jobs that one process drives. `size`: how many they are now."""

    def __init__(self) -> None:
        self.size = 0

    @contextmanager
    def used(self) -> Iterator[None]:
        """One more job is driven, by what is called in here and by tasks that are started in here."""
        token = _crowd.set(self)
        self.size += 1
        try:
            yield
        finally:
            self.size -= 1
            _crowd.reset(token)


_crowd: ContextVar[Crowd | None] = ContextVar("crowd", default=None)


def idle(seconds: float) -> float:
    """Between two looks at one job where nothing has happened; so many where there are few."""
    return max(seconds, _size() / IDLE_LOOKS_A_SECOND)


def restless(seconds: float) -> float:
    """Until one job looks whether something that may be about any of them is about it."""
    return max(seconds, _size() / RESTLESS_WAKES_A_SECOND)


def _size() -> int:
    crowd = _crowd.get()
    return 1 if crowd is None else crowd.size
