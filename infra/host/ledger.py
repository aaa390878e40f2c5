"""Where the program's events go: from the scratch folder into the ledger, in batches."""

from __future__ import annotations

from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Scratch
from prefect_tpu.infra.storage import Storage

SHORTEST_SECONDS, LONGEST_SECONDS = 1.0, 60.0


class LedgerShipper:
    """Copies whole lines of the events file to `ledger/`, each object written once."""

    def __init__(self, storage: Storage, scratch: Path, attempt: int, host: int) -> None:
        self._storage = storage
        self._events = scratch / Scratch.EVENTS
        self._attempt, self._host = attempt, host
        self._sequence, self._offset = 0, 0
        self._next = SHORTEST_SECONDS

    def ship_when_due(self, age_seconds: float) -> None:
        """Often while the attempt is young, once a minute later: objects stay few."""
        if age_seconds >= self._next:
            self._next = age_seconds + min(LONGEST_SECONDS, max(SHORTEST_SECONDS, age_seconds / 20))
            self.ship()

    def ship(self) -> None:
        """Everything that was written since, up to the last whole line.

        Raises `PlatformError` where storage refuses: the lines wait for the next time.
        """
        while (lines := self._unshipped()) and not self._ship(lines):
            pass

    def _unshipped(self) -> bytes:
        try:
            with self._events.open("rb") as file:
                file.seek(self._offset)
                whole, newline, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return b""
        return whole + newline

    def _ship(self, lines: bytes) -> bool:
        """Whether all of them are there now. Else an earlier write was, of fewer lines, whose answer was lost."""
        name = layout.host_ledger(self._attempt, self._host, self._sequence)
        is_ours = self._storage.put_if_absent(name, lines)
        there = lines if is_ours else self._storage.get(name) or lines
        self._sequence += 1
        self._offset += len(there)
        return is_ours
