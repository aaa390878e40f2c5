"""When does something happen in a fake that takes its time? What is due, in the order of its time, by one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

_TICK_SECONDS = 0.005


class Clock:
    """lock: held by whoever looks at the fake's state, or changes it. errors: what went wrong in what was done.

    is_paused: nothing happens by itself, however late it becomes.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.errors: list[str] = []
        self.is_paused = False
        self._due: list[tuple[float, Callable[[], object]]] = []
        self._acts: list[Callable[[], object]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-clock", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def after(self, seconds: float, what: Callable[[], object]) -> None:
        """Do it then, under the lock."""
        with self.lock:
            self._due.append((time.monotonic() + seconds, what))

    def soon(self, act: Callable[..., object], *what: Any) -> None:
        """Do it outside the lock, after all that was said before: machines take longer than requests may wait."""
        with self.lock:
            self._acts.append(lambda: act(*what))

    def _run(self) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            with self.lock:
                if self.is_paused:
                    continue
                self._tick(time.monotonic())
                acts, self._acts = self._acts, []
            for act in acts:
                self._try(act)

    def _tick(self, now: float) -> None:
        due = sorted((one for one in self._due if one[0] <= now), key=lambda one: one[0])
        self._due = [one for one in self._due if one[0] > now]
        for _, what in due:
            self._try(what)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # the fake lives on; whoever ends it looks
            self.errors.append(repr(error))
