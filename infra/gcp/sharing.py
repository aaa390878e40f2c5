"""What do many jobs of one process use together? Connections and watches: each is made once, for whoever is first.

Who drives a single job shares nothing: it opens what it needs and closes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar


class Closing(Protocol):
    """What is shared is closed at the end."""

    @property
    def is_over(self) -> bool:
        """Whether it serves nobody any more, so that the next one who asks has another."""
        ...

    async def close(self) -> None: ...


Thing = TypeVar("Thing", bound=Closing)


class Shared:
    """Things of one event loop, until it is closed."""

    def __init__(self) -> None:
        self._things: dict[Hashable, Any] = {}
        self._locks: dict[Hashable, asyncio.Lock] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Thing]]) -> Thing:
        """The thing of this key; made where there is none. What `make` raises is raised to each who asks."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            found: Thing | None = self._things.get(key)
            if found is not None and not found.is_over:
                return found
            if found is not None:
                await found.close()
            self._things[key] = made = await make()
            return made

    async def close(self) -> None:
        """Close all of it, the newest first: watches before the connections that they need."""
        while self._things:
            _, thing = self._things.popitem()
            await thing.close()

    @contextmanager
    def used(self) -> Iterator[None]:
        """Whatever is opened in here, and in tasks that are started in here, is shared."""
        token = _shared.set(self)
        try:
            yield
        finally:
            _shared.reset(token)


_shared: ContextVar[Shared | None] = ContextVar("shared", default=None)


def shared() -> Shared | None:
    """What is shared where this is asked; None where nothing is."""
    return _shared.get()
