"""Must we leave? Agreed by all hosts: one host's notice makes all of them leave at the same call."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Protocol


class Notice(Protocol):
    """Something that hears SIGTERM, from `begin` to `end`."""

    def begin(self) -> None: ...

    def has_come(self, call: int) -> bool:
        """Whether to leave at this call; calls are counted from 1, alike on all hosts."""
        ...

    def end(self) -> None: ...


class OwnNotice:
    """For a process on its own: a signal handler, put back afterwards."""

    def __init__(self) -> None:
        self._came = False
        self._before: Any = None
        self._is_listening = False

    def begin(self) -> None:
        """Listen, where Python allows it: in the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._hear)
            self._is_listening = True

    def has_come(self, call: int) -> bool:
        return self._came

    def end(self) -> None:
        if self._is_listening:
            signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
            self._is_listening = False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._came = True


class AgreedNotice:
    """For several processes: JAX's preemption service, which hears SIGTERM itself from `join` on.

    It answers yes at exactly one number, the same on all hosts. Calls are counted
    here rather than steps, because a program may save only every few steps and
    would pass that number by.
    """

    def begin(self) -> None:
        """Nothing to do: the service listens already."""

    def has_come(self, call: int) -> bool:
        from jax.experimental import multihost_utils

        return multihost_utils.reached_preemption_sync_point(call)

    def end(self) -> None:
        """Nothing to undo."""
