"""What goes wrong with which request? A plan that a seed decides: the same seed, the same fate for the nth request."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

READING = ("GET", "HEAD")


class Kind(StrEnum):
    """What may become of a request and of its answer."""

    CONFLICT = "409"  # of a change: somebody else was quicker
    EXPIRED = "410"  # of a watch or a list that goes on: what it goes on from is forgotten
    BUSY = "429"  # with Retry-After; nothing was done
    BROKEN = "500"
    LATE = "504"  # from whatever stands before the server, which may have done it
    CUT = "cut"  # a watch or a log that breaks off
    LOST = "lost"  # done, and the connection is gone before the answer
    SLOW = "slow"
    AWAY = "away"  # nothing answers for a while

    @property
    def code(self) -> int:
        """Of the answer; 0 where there is none or the right one."""
        return int(self) if self.isdigit() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as far as its fate depends on it. `server`: what the test calls the server that it is for."""

    method: str
    target: str
    server: str = ""

    @property
    def is_write(self) -> bool:
        return self.method not in READING and "dryRun" not in self._query

    @property
    def is_stream(self) -> bool:
        """Whether its answer goes on for as long as somebody listens."""
        return bool({"watch", "follow"} & self._query.keys())

    @property
    def goes_on(self) -> bool:
        """Whether it continues from something that was read before."""
        return "watch" in self._query or "continue" in self._query

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One request's fate.

    seconds: that it is late, or that nobody answers from now on.
    lines: of a stream until it breaks off.
    is_done: whether the server hears of it, although its answer does not say so.
    """

    kind: Kind
    seconds: float = 0.0
    lines: int = 0
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The plan.

    rate: of requests that something goes wrong with.
    away: seconds that a server is away, each time.
    most_away: how many times.
    """

    seed: int
    rate: float
    kinds: Collection[Kind] = tuple(Kind)
    away: float = 5.0
    most_away: int = 1

    def of(self, number: int, asked: Asked, before: Counter[Kind]) -> Fault | None:
        """The fate of the nth request; None where it goes well. before: what went wrong until now."""
        chance = random.Random(f"{self.seed}/{number}")
        if chance.random() >= self.rate:
            return None
        kinds = [kind for kind in Kind if kind in self.kinds and _fits(kind, asked)]
        if before[Kind.AWAY] >= self.most_away:
            kinds = [kind for kind in kinds if kind is not Kind.AWAY]
        if not kinds:
            return None
        # What goes wrong least often goes first: a short run has all of it.
        least = min(before[kind] for kind in kinds)
        kind = chance.choice([kind for kind in kinds if before[kind] == least])
        seconds = {Kind.SLOW: chance.uniform(0.3, 2.0), Kind.BUSY: 1.0, Kind.AWAY: self.away}.get(kind, 0.0)
        is_done = kind is Kind.LOST or (kind in (Kind.BROKEN, Kind.LATE) and chance.random() < 0.5)
        return Fault(kind=kind, seconds=seconds, lines=chance.randrange(4), is_done=is_done)


NONE = Faults(seed=0, rate=0.0)


def _fits(kind: Kind, asked: Asked) -> bool:
    match kind:
        case Kind.CONFLICT:
            return asked.method in ("PUT", "PATCH", "DELETE")
        case Kind.EXPIRED:
            return asked.goes_on
        case Kind.CUT:
            return asked.is_stream
        case Kind.LOST:
            return not asked.is_stream
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A point between two instructions of whoever asks, by what the servers see of it: the nth request, from 1.

    is_of_writes: only what changes something counts.
    server: only what goes to this one counts; empty for all.
    is_done: after the server has done it; else before it hears of it. Either way no answer comes back.
    """

    nth: int
    is_of_writes: bool = False
    server: str = ""
    is_done: bool = False

    def counts(self, asked: Asked) -> bool:
        return (asked.is_write or not self.is_of_writes) and self.server in ("", asked.server)


@dataclass(slots=True)
class Traffic:
    """What passes on the way of one client to all its servers: counted, and struck at a moment.

    asked: every request, in order. injected: how often what went wrong.
    """

    asked: list[Asked] = field(default_factory=list)
    injected: Counter[Kind] = field(default_factory=Counter)
    _moment: Moment | None = None
    _strike: Callable[[], None] = lambda: None
    _seen: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, moment: Moment, strike: Callable[[], None]) -> None:
        """Strike once, at this moment from now."""
        with self._lock:
            self._moment, self._strike, self._seen = moment, strike, 0

    def disarm(self) -> None:
        with self._lock:
            self._moment = None

    def note(self, asked: Asked, faults: Faults) -> tuple[Moment | None, Callable[[], None], Fault | None]:
        """A request has come: the moment and its strike, where it is now, and what goes wrong otherwise."""
        with self._lock:
            self.asked.append(asked)
            moment = self._moment
            if moment and moment.counts(asked):
                self._seen += 1
                if self._seen == moment.nth:
                    self._moment = None
                    return moment, self._strike, None
            fault = faults.of(len(self.asked), asked, self.injected)
            if fault is not None:
                self.injected[fault.kind] += 1
            return None, self._strike, fault


def kubernetes_says(fault: Fault) -> bytes:
    """A Status object, as the API server writes one."""
    reasons = {
        Kind.CONFLICT: ("Conflict", "the object has been modified; please apply your changes to the latest version"),
        Kind.EXPIRED: ("Expired", "too old resource version: 1 (2)"),
        Kind.BUSY: ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
        Kind.BROKEN: ("InternalError", "etcdserver: leader changed"),
        Kind.LATE: ("Timeout", "request did not complete within the allotted timeout"),
    }
    reason, message = reasons[fault.kind]
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json.dumps({**status, "reason": reason, "message": message, "code": fault.kind.code}).encode()


def google_says(fault: Fault) -> bytes:
    """An error as Google's JSON APIs write one."""
    words = {
        Kind.CONFLICT: ("ABORTED", "The operation was aborted: it conflicts with another one. Try again."),
        Kind.EXPIRED: ("FAILED_PRECONDITION", "What it goes on from has expired."),
        Kind.BUSY: ("RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'requests' per minute."),
        Kind.BROKEN: ("INTERNAL", "Internal error encountered."),
        Kind.LATE: ("DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
    }
    status, message = words[fault.kind]
    error = {"code": fault.kind.code, "status": status, "message": message}
    detail = {"domain": "global", "reason": "backendError", "message": message}
    return json.dumps({"error": {**error, "errors": [detail]}}).encode()
