"""Who drives this job? At most one at a time, by a lease that is renewed.

Two drivers for a moment do no harm: every write that matters is create-only.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from prefect_tpu.infra import layout
from prefect_tpu.infra.storage import Storage

RENEW_SECONDS = 5.0
LAPSED_SECONDS = 15.0  # three renewals missed
SAME_SECONDS = 1.5  # the machine's own start is known in whole seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who holds a lease: a token, and the process that could be asked.

    born: when the process began, in seconds since its machine did.
    """

    token: str
    host: str
    pid: int
    born: float

    @property
    def is_here(self) -> bool:
        """On this machine, where it can be looked at."""
        return self.host == socket.gethostname()

    @property
    def is_dead(self) -> bool:
        """Known to be gone; False where it runs, and where it is on another machine."""
        if not self.is_here:
            return False
        try:
            is_another = abs(born(self.pid) - self.born) > SAME_SECONDS
            return is_another or psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return True

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lease:
    """This process's claim to drive one job."""

    def __init__(self, storage: Storage, clock: Callable[[], float]) -> None:
        self._storage = storage
        self._clock = clock
        self._me = Driver(token=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid(), born=born(os.getpid()))
        self._renewals = 0
        self._seen: bytes | None = None
        self._seen_at = clock()

    def take(self) -> Driver | None:
        """None where we drive now; else who does. Asked again, it takes over a lease that lapsed."""
        raw = self._storage.get(layout.LEASE)
        if raw is None and self._storage.put_if_absent(layout.LEASE, self._claim()):
            return None  # of two that find no lease, one gets it
        raw = raw or self._storage.get(layout.LEASE)
        holder = _parse(raw)
        if holder is None or holder.token == self._me.token or holder.is_dead or self._has_lapsed(raw):
            self.renew()
            return None
        return holder

    def renew(self) -> None:
        self._storage.put(layout.LEASE, self._claim())

    def _claim(self) -> bytes:
        self._renewals += 1
        data = {
            "token": self._me.token,
            "host": self._me.host,
            "pid": self._me.pid,
            "born": self._me.born,
            "renewals": self._renewals,
        }
        return json.dumps(data).encode()

    def successor(self) -> Driver | None:
        """Who took over meanwhile; None where nobody did."""
        holder = _parse(self._storage.get(layout.LEASE))
        return None if holder is None or holder.token == self._me.token else holder

    def give_up(self) -> None:
        if self.successor() is None:
            self._storage.delete(layout.LEASE)

    def _has_lapsed(self, raw: bytes | None) -> bool:
        """Unchanged for long enough on our own clock; clocks of two machines are never compared."""
        if raw != self._seen:
            self._seen, self._seen_at = raw, self._clock()
        return self._clock() - self._seen_at > LAPSED_SECONDS


def born(pid: int) -> float:
    """When a process began, in seconds since its machine did: the wall clock may be set meanwhile.

    Raises `psutil.Error` where there is no such process.
    """
    machine = psutil.boot_time()  # first: older versions of psutil keep it for the call below
    return psutil.Process(pid).create_time() - machine


def driver_of(storage: Storage) -> Driver | None:
    """Who drives a job, as far as one look can tell; None where nobody does and where whoever did is dead."""
    holder = _parse(storage.get(layout.LEASE))
    return None if holder is None or holder.is_dead else holder


class Pulse:
    """Whether a driver lives, by looking more than once: of one on another machine a single look cannot tell."""

    def __init__(self, storage: Storage, clock: Callable[[], float]) -> None:
        self._storage, self._clock = storage, clock
        self._seen: bytes | None = None
        self._seen_at = clock()

    def driver(self) -> Driver | None:
        """Who drives; None where nobody does, or has not renewed the lease while it was looked at for long enough."""
        raw = self._storage.get(layout.LEASE)
        if raw != self._seen:
            self._seen, self._seen_at = raw, self._clock()
        holder = _parse(raw)
        is_silent = self._clock() - self._seen_at > LAPSED_SECONDS
        return None if holder is None or holder.is_dead or is_silent else holder


def _parse(raw: bytes | None) -> Driver | None:
    if raw is None:
        return None
    try:
        data = json.loads(raw)
        return Driver(token=str(data["token"]), host=str(data["host"]), pid=int(data["pid"]), born=float(data["born"]))
    except (ValueError, KeyError, TypeError):
        return None  # damaged: as good as no lease
