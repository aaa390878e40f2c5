"""Something that goes on in threads for as long as it is entered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self


class InBackground:
    """Each of `works` runs in a thread of its own, and returns once `is_over` is set."""

    def __init__(self, *works: Callable[[], None]) -> None:
        self.is_over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self._threads:
            thread.join()
