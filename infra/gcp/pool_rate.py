"""How fast may node pools be changed? A bucket of tokens for each project, and one change of a cluster at a time.

Google counts requests by project and minute, whichever job they are for; and a cluster takes one change at a time, so
two requests of this process that ran side by side would only refuse each other. What other processes do is not known
here: Google refuses it, and it is asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prefect_tpu.infra.gcp.clusters import GkeCluster

BURST = 10  # changes at once
PER_SECOND = 0.5  # and then


class TokenBucket:
    """So many at once, and then one now and then. Shared by threads."""

    def __init__(
        self,
        burst: float,
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._burst, self._per_second, self._clock, self._sleep = burst, per_second, clock, sleep
        self._left, self._filled = burst, clock()
        self._lock = threading.Lock()

    def take(self) -> None:
        """Return once it is this caller's turn: each takes a token, if need be of the future, and waits for it."""
        with self._lock:
            now = self._clock()
            self._left = min(self._burst, self._left + (now - self._filled) * self._per_second) - 1
            self._filled = now
            owed = -self._left / self._per_second
        if owed > 0:
            self._sleep(owed)


class Gates:
    """The buckets and locks of one process."""

    def __init__(self, make: Callable[[], TokenBucket] = lambda: TokenBucket(BURST, PER_SECOND)) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._buckets: dict[str, TokenBucket] = {}
        self._clusters: dict[str, threading.Lock] = {}

    @contextmanager
    def change(self, cluster: GkeCluster) -> Iterator[None]:
        """While a request that changes a cluster is sent."""
        with self._lock:
            bucket = self._buckets.setdefault(cluster.project, self._make())
            one = self._clusters.setdefault(cluster.resource_name, threading.Lock())
        with one:
            bucket.take()
            yield


GATES = Gates()
