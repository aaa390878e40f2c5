"""A global concurrency limit of chips for one test, and how many of them are taken."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prefect_server import Server

LIMITS = "/v2/concurrency_limits"
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The chips of one kind on one server."""

    server: Server
    name: str

    @property
    def taken(self) -> int:
        return int(self.server.ask(f"{LIMITS}/{self.name}")["active_slots"])

    def change(self, **values: Any) -> None:
        self.server.change(f"{LIMITS}/{self.name}", **values)

    def delete(self) -> None:
        self.server.delete(f"{LIMITS}/{self.name}")

    def revoke(self, lease: str) -> None:
        """What the server does to a lease that has lapsed."""
        self.server.ask(f"{LIMITS}/decrement-with-lease", lease_id=lease)

    @contextmanager
    def watched(self) -> Iterator[list[int]]:
        """How many are taken, asked all the while."""
        seen: list[int] = []
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.wait(LOOK_SECONDS):
                seen.append(self.taken)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield seen
        finally:
            is_over.set()
            watcher.join()


@contextmanager
def limited(server: Server, kind: str, chips: int) -> Iterator[Limit]:
    """Other tests of this server have as many as they like."""
    server.ask(f"{LIMITS}/", name=f"chips-{kind}", limit=chips)
    limit = Limit(server=server, name=f"chips-{kind}")
    try:
        yield limit
    finally:
        if any(found["name"] == limit.name for found in server.ask(f"{LIMITS}/filter", limit=200)):
            limit.delete()
