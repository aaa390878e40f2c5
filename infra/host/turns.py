"""How do the threads of an agent keep out of each other's way? What they learn, the main one does, in turn."""

from __future__ import annotations

import queue
from collections.abc import Callable

LOOK_SECONDS = 0.05


class Turns:
    """Deeds from any thread, done one after another by the one that runs."""

    def __init__(self) -> None:
        self._due: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def post(self, act: Callable[[], None]) -> None:
        """To be done next."""
        self._due.put(act)

    def run(self, between: Callable[[], bool]) -> None:
        """Until `between`, which is asked after each deed and now and then, says that it is over."""
        while not between():
            try:
                act = self._due.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            act()
