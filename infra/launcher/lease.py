"""Who drives this job? At most one at a time, by a lease that is renewed.

The lease of a process that drives many jobs is written once and points to that process's heartbeat, which is renewed
in its stead: a version of this package that knows no heartbeats takes such a lease for one that lapsed.

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
from prefect_tpu.infra.storage import Storage, open_storage

RENEW_SECONDS = 5.0
LAPSED_SECONDS = 15.0  # three renewals missed
SAME_SECONDS = 1.5  # the machine's own start is known in whole seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """Who holds a lease: a token, and the process that could be asked.

    born: when the process began, in seconds since its machine did.
    heartbeat: the name of what it renews in place of the lease; None where it renews the lease.
    """

    token: str
    host: str
    pid: int
    born: float
    heartbeat: str | None = None

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
    """This process's claim to drive one job.

    heartbeat: of this process, which is renewed in place of the lease; None where the lease itself is renewed.
    """

    def __init__(self, storage: Storage, clock: Callable[[], float], heartbeat: str | None = None) -> None:
        self._storage = storage
        self._clock = clock
        self._me = Driver(
            token=uuid.uuid4().hex,
            host=socket.gethostname(),
            pid=os.getpid(),
            born=born(os.getpid()),
            heartbeat=heartbeat,
        )
        self._renewals = 0
        self._seen: bytes | None = None
        self._seen_at = clock()
        self._held_by: Driver | None = None

    def take(self, *, is_silent: bool = False) -> Driver | None:
        """None where we drive now; else who does. Asked again, it takes over a lease that lapsed.

        is_silent: whoever held it last is known to be gone, by the heartbeat that it points to.
        """
        raw = self._storage.get(layout.LEASE)
        if raw is None and self._storage.put_if_absent(layout.LEASE, self._claim()):
            return None  # of two that find no lease, one gets it
        raw = raw or self._storage.get(layout.LEASE)
        holder = _parse(raw)
        if holder is None or holder.token == self._me.token or holder.is_dead or self._is_gone(raw, holder, is_silent):
            self.renew()
            return None
        self._held_by = holder
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
            **({"heartbeat": self._me.heartbeat} if self._me.heartbeat else {}),
        }
        return json.dumps(data).encode()

    def successor(self) -> Driver | None:
        """Who took over meanwhile; None where nobody did."""
        holder = _parse(self._storage.get(layout.LEASE))
        return None if holder is None or holder.token == self._me.token else holder

    def give_up(self) -> None:
        """Nothing happens where it is not ours: somebody may just be taking it."""
        holder = _parse(self._storage.get(layout.LEASE))
        if holder is not None and holder.token == self._me.token:
            self._storage.delete(layout.LEASE)

    def _is_gone(self, raw: bytes | None, holder: Driver, is_silent: bool) -> bool:
        return (is_silent and holder == self._held_by) or self._has_lapsed(raw, holder)

    def _has_lapsed(self, raw: bytes | None, holder: Driver) -> bool:
        """Unchanged for long enough on our own clock; clocks of two machines are never compared."""
        sign = _sign(self._storage, raw, holder)
        if sign != self._seen:
            self._seen, self._seen_at = sign, self._clock()
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


def sign_of_life(storage: Storage) -> bytes | None:
    """What changes as long as somebody drives; None where nobody does."""
    raw = storage.get(layout.LEASE)
    return _sign(storage, raw, _parse(raw))


def renewed_at(storage: Storage) -> float | None:
    """When a driver last gave a sign of life, in seconds since the epoch by the storage's clock; None without one."""
    driver = _parse(storage.get(layout.LEASE))
    moments = [storage.changed(layout.LEASE)]
    if driver is not None and driver.heartbeat is not None:
        moments.append(output_of(storage).changed(layout.heartbeat(driver.heartbeat)))
    return max((moment for moment in moments if moment is not None), default=None)


class Pulse:
    """Whether a driver lives, by looking more than once: of one on another machine a single look cannot tell."""

    def __init__(self, storage: Storage, clock: Callable[[], float]) -> None:
        self._storage, self._clock = storage, clock
        self._seen: bytes | None = None
        self._seen_at = clock()

    def driver(self) -> Driver | None:
        """Who drives; None where nobody does, or has not renewed the lease while it was looked at for long enough."""
        raw = self._storage.get(layout.LEASE)
        holder = _parse(raw)
        sign = _sign(self._storage, raw, holder)
        if sign != self._seen:
            self._seen, self._seen_at = sign, self._clock()
        is_silent = self._clock() - self._seen_at > LAPSED_SECONDS
        return None if holder is None or holder.is_dead or is_silent else holder


def _parse(raw: bytes | None) -> Driver | None:
    if raw is None:
        return None
    try:
        data = json.loads(raw)
        return Driver(
            token=str(data["token"]),
            host=str(data["host"]),
            pid=int(data["pid"]),
            born=float(data["born"]),
            heartbeat=None if data.get("heartbeat") is None else str(data["heartbeat"]),
        )
    except (ValueError, KeyError, TypeError):
        return None  # damaged: as good as no lease


def _sign(storage: Storage, raw: bytes | None, holder: Driver | None) -> bytes | None:
    """The lease, with the heartbeat that it points to."""
    if raw is None or holder is None or holder.heartbeat is None:
        return raw
    return raw + (output_of(storage).get(layout.heartbeat(holder.heartbeat)) or b"")


def output_of(storage: Storage) -> Storage:
    """Where the job whose folder this is lies, among others."""
    return open_storage(storage.url.rpartition("/")[0])
