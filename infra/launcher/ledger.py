"""The launcher's side of the ledger: what happened when, by the launcher's clock."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.storage import Storage

WRITER = "launcher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """That an attempt was sent.

    started: when; now, where its driver was killed before it wrote that down.
    instead_of: which better liked slices were not to be had, and why.
    """

    started: float
    instead_of: str | None


class Ledger:
    """Writes and reads the events of a job. Each object is written once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._written: dict[int, int] = {}  # attempt → how many events this process knows to be there

    def write(self, attempt: int, event: str, **facts: Any) -> None:
        """One event, now."""
        line = json.dumps({"time": time.time(), "event": event, **facts}) + "\n"
        known = self._written.get(attempt)
        sequence = len(self._of(attempt, WRITER)) if known is None else known
        while not self._storage.put_if_absent(layout.ledger(attempt, WRITER, sequence), line.encode()):
            sequence += 1
        self._written[attempt] = sequence + 1

    def submitted(self, attempt: int) -> Submitted:
        """What was written down when the attempt was sent."""
        events = [event for event in self.read(attempt, WRITER) if event["event"] == Event.SUBMITTED]
        moments = (event.get("time") for event in events)
        started = float(next((moment for moment in moments if isinstance(moment, int | float)), time.time()))
        missed = next((why for event in events if isinstance(why := event.get("instead_of"), str)), None)
        return Submitted(started=started, instead_of=missed)

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
