"""Was this host told to leave? Signals turned into a flag the runner's loop reads."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class ToldToLeave(BaseException):
    """A notice came while there was no program yet that could save anything."""


class Notice:
    """Set by SIGTERM, which is how every platform announces that a host will go.

    Whoever starts a runner may block SIGTERM until now: a notice that came meanwhile is heard here, not lost.
    """

    def __init__(self) -> None:
        self.given_at: float | None = None  # on the monotonic clock
        self._interrupts = False
        signal.signal(signal.SIGTERM, self._give)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's interrupt is the orchestrator's to handle

    @property
    def is_given(self) -> bool:
        return self.given_at is not None

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within the block a notice is an exception, `ToldToLeave`; also one that came before."""
        self._interrupts = True
        try:
            if self.is_given:
                raise ToldToLeave
            yield
        finally:
            self._interrupts = False

    def _give(self, signum: int, frame: FrameType | None) -> None:
        if self.given_at is None:
            self.given_at = time.monotonic()
        if self._interrupts:
            self._interrupts = False  # once: what follows has an end of its own
            raise ToldToLeave
