"""How do others learn how far a host is, whose disk they do not see? By an object that is replaced while it runs."""

from __future__ import annotations

from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.scratch import HostProgress
from prefect_tpu.infra.storage import Storage

SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 10.0  # a bucket takes one write a second of an object
SHARE = 0.02  # of the age of the attempt: ten minutes old, it is told every 10 s


class ProgressTeller:
    """Tells of one host's scratch folder what changed since."""

    def __init__(self, storage: Storage, scratch: Path, attempt: int, host: int) -> None:
        self._storage, self._scratch = storage, scratch
        self._name = layout.progress(attempt, host)
        self._told = HostProgress()
        self._next = 0.0

    def tell_when_due(self, age_seconds: float) -> None:
        """Often while the attempt is young. Where nothing changed, nothing is written."""
        if age_seconds >= self._next:
            self._next = age_seconds + min(LONGEST_SECONDS, max(SHORTEST_SECONDS, SHARE * age_seconds))
            self.tell()

    def tell(self) -> None:
        now = HostProgress.of(self._scratch)
        if now != self._told:
            self._storage.put(self._name, now.to_json())
            self._told = now
