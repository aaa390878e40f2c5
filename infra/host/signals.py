"""Was this host told to leave? Signals turned into a flag the runner's loop reads."""

from __future__ import annotations

import signal
from types import FrameType


class Notice:
    """Set by SIGTERM, which is how every platform announces that a host will go.

    Whoever starts a runner may block SIGTERM until now: a notice that came meanwhile is heard here, not lost.
    """

    def __init__(self) -> None:
        self.is_given = False
        signal.signal(signal.SIGTERM, self._give)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's interrupt is the orchestrator's to handle

    def _give(self, signum: int, frame: FrameType | None) -> None:
        self.is_given = True
