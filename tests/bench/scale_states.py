"""How do flow runs stand, and when did that change? Looked up in Prefect's own database, which asks no server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Self
from uuid import UUID

import asyncpg

LOOK_SECONDS = 0.02
LEFT = "select id from flow_run where id = any($1::uuid[]) and state_type <> 'RUNNING'"
COUNT = "select state_type::text, count(*) from flow_run where deployment_id = $1 group by 1"


class States:
    """Looks many times a second at runs whose pods were lost.

    Args:
        database: its URL, as Prefect writes it.
        has_left: hears of each that is not running any more, in the thread that looks.
    """

    def __init__(self, database: str, has_left: Callable[[str], None]) -> None:
        self._url, self._has_left = database.replace("+asyncpg", ""), has_left
        self._lost: dict[UUID, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._watch()), daemon=True)
        self.seconds: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def missing(self) -> int:
        """How many of those that were lost still count as running."""
        return len(self._lost)

    def lost(self, run: str) -> None:
        """Its pod ends now."""
        self._lost[UUID(run)] = time.monotonic()

    def count(self, deployment: str) -> Counter[str]:
        """How many runs are in which type of state."""
        return asyncio.run(self._count(deployment))

    async def _count(self, deployment: str) -> Counter[str]:
        connection = await asyncpg.connect(self._url)
        try:
            return Counter({row[0]: row[1] for row in await connection.fetch(COUNT, UUID(deployment))})
        finally:
            await connection.close()

    async def _watch(self) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            while not self._over.is_set():
                if waiting := list(self._lost):
                    self._note(await connection.fetch(LEFT, waiting))
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await connection.close()

    def _note(self, rows: list[Any]) -> None:
        for row in rows:
            self.seconds.append(time.monotonic() - self._lost.pop(row[0]))
            self._has_left(str(row[0]))
