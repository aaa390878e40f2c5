"""What do a terminal's interrupts and its end, a termination and a time that is over mean to who follows a job?"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.infra.launcher.driving import Detach

HEED_AFTER_SECONDS = 1.5  # a second interrupt within this time finds hosts that have not been told to leave


class TimeIsOver(Detach):
    """`--timeout` is over: let go of the job and leave its hosts running."""


class Interrupts:
    """The first interrupt stops the job and the second leaves it running, while this process drives.

    Who only follows leaves at the first.
    """

    def __init__(self, *, drives: bool = True) -> None:
        self.reason: str | None = None
        self.drives = drives
        self._heed_at = 0.0

    def asks_to_stop(self) -> str | None:
        return self.reason if time.monotonic() >= self._heed_at else None

    @contextmanager
    def caught(self, timeout: float | None = None) -> Iterator[None]:
        """Inside, interrupts have this meaning, and after `timeout` seconds the job is let go."""
        ours = {signal.SIGINT: self._interrupt, signal.SIGTERM: _terminate, signal.SIGALRM: _time_is_over}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` sets it
            ours[signal.SIGHUP] = self._hang_up
        before = {number: signal.signal(number, handler) for number, handler in ours.items()}
        signal.setitimer(signal.ITIMER_REAL, timeout or 0.0)
        try:
            yield
        finally:
            self.end_of_waiting()
            for number, handler in before.items():
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, handler)

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        """The terminal was closed: a job that was not told to stop runs on. Said twice, by the shell and the kernel."""
        signal.signal(number, signal.SIG_IGN)
        if self.reason is None:
            raise Detach

    def end_of_waiting(self) -> None:
        """There is nothing left to wait for: no time can be over any more."""
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None or not self.drives:
            raise Detach
        self._heed_at = time.monotonic() + HEED_AFTER_SECONDS
        self.reason = "interrupted at the terminal"
        sys.stderr.write("\nStopping: the hosts save and leave. Interrupt again to leave the job running.\n")


def _terminate(number: int, frame: FrameType | None) -> None:
    """The hosts save and leave; the job keeps no end, so running it again goes on."""
    sys.exit(ExitStatus.TERMINATED)


def _time_is_over(number: int, frame: FrameType | None) -> None:
    raise TimeIsOver
