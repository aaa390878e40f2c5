"""Does anybody still drive this job? Seen from a host, which trusts no other machine's clock."""

from __future__ import annotations

from collections.abc import Callable

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.storage import Storage

LOOK_SECONDS = 1.0


class LeaseWatch:
    """Tells when the lease has not changed for `orphan_after` seconds of this host's own clock."""

    def __init__(self, storage: Storage, orphan_after: float, clock: Callable[[], float]) -> None:
        self._storage = storage
        self._orphan_after = orphan_after
        self._clock = clock
        self._seen: bytes | None = None
        self._changed = clock()
        self._next_look = 0.0

    def is_orphaned_at(self, age_seconds: float) -> bool:
        """As `is_orphaned`, looked at once a second; any other call costs nothing."""
        if age_seconds < self._next_look:
            return False
        self._next_look = age_seconds + LOOK_SECONDS
        return self.is_orphaned()

    def is_orphaned(self) -> bool:
        """Reads the lease. Storage that cannot be read counts as a lease that did not change."""
        try:
            lease = self._storage.get(layout.LEASE)
        except PrefectTpuError:
            lease = self._seen
        if lease is not None and lease != self._seen:
            self._seen, self._changed = lease, self._clock()
        return self._clock() - self._changed > self._orphan_after
