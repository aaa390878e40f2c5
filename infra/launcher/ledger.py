"""The launcher's side of the ledger: what happened when, by the launcher's clock."""

from __future__ import annotations

import json
import time
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.storage import Storage

WRITER = "launcher"


class Ledger:
    """Writes and reads the events of a job. Each object is written once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def write(self, attempt: int, event: str, **facts: Any) -> None:
        """One event, now."""
        line = json.dumps({"time": time.time(), "event": event, **facts}) + "\n"
        sequence = len(self._of(attempt, WRITER))
        while not self._storage.put_if_absent(layout.ledger(attempt, WRITER, sequence), line.encode()):
            sequence += 1

    def started(self, attempt: int) -> float:
        """When the attempt was submitted; now, where its driver was killed before it wrote that down."""
        found = (e.get("time") for e in self.read(attempt, WRITER) if e["event"] == Event.SUBMITTED)
        return float(next((moment for moment in found if isinstance(moment, int | float)), time.time()))

    def instead_of(self, attempt: int) -> str | None:
        """Which better liked slices were not to be had when the attempt was submitted, and why."""
        submitted = (e for e in self.read(attempt, WRITER) if e["event"] == Event.SUBMITTED)
        return next((why for event in submitted if isinstance(why := event.get("instead_of"), str)), None)

    def read(self, attempt: int, writer: str) -> list[dict[str, Any]]:
        """All events of one writer in an attempt, oldest first. Lines that are no events are left out."""
        raw = (self._storage.get(name) or b"" for name in self._of(attempt, writer))
        return [event for text in raw for line in text.splitlines() if (event := _event(line)) is not None]

    def _of(self, attempt: int, writer: str) -> list[str]:
        begin = f"{attempt}-{writer}-"
        mine = (name.removeprefix(begin) for name in self._storage.children(layout.LEDGER) if name.startswith(begin))
        return [layout.ledger(attempt, writer, sequence) for sequence in layout.numbered(mine, ".jsonl")]


def _event(line: bytes) -> dict[str, Any] | None:
    """A host's lines are written by its program, and a disk may lose a part of any: neither stops a job."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None
