"""What did a worker cost in a span of time? Requests by whom they were for, open watches, memory, time of a core."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil
from faults import Traffic
from gcs_corrections import Request

LOOK_SECONDS = 0.5
OWN = "tests"  # what the measurement itself calls itself to the bucket
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one span.

    watches: open at its end. peak: of memory in the span, in MiB; memory: at its end. cores: of processor time.
    by_verb: of the API server's requests.
    """

    seconds: float
    prefect: int
    cluster: int
    bucket: int
    watches: int
    memory: float
    peak: float
    cores: float
    by_verb: Counter[str]

    def a_minute(self, count: int) -> float:
        return count * 60 / self.seconds


class AuditLog:
    """What the API server writes down of its audited users, read as it grows."""

    def __init__(self, path: Path, user: str) -> None:
        self._path, self._user, self._at = path, user, 0
        self.requests: Counter[str] = Counter()
        self._open: set[str] = set()

    @property
    def watches(self) -> int:
        self.read()
        return len(self._open)

    def read(self) -> Counter[str]:
        """Verbs and kinds of all requests until now; a watch counts once, when it begins."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._at)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._at += len(line)
                    self._note(json.loads(line))
        return self.requests

    def _note(self, event: dict[str, object]) -> None:
        user, verb, stage = event["user"], event["verb"], event["stage"]
        assert isinstance(user, dict)
        if user["username"] != self._user:
            return
        about = event.get("objectRef")
        kind = about.get("resource") if isinstance(about, dict) else event.get("requestURI")
        if stage == "ResponseStarted":
            self._open.add(str(event["auditID"]))
        else:
            self._open.discard(str(event["auditID"]))
        if (verb == "watch") == (stage == "ResponseStarted"):
            self.requests[f"{verb} {kind}"] += 1


@dataclass(slots=True, kw_only=True)
class Meter:
    """Counts for one worker from its start.

    prefect: what passed to the Prefect server. bucket: what the bucket was asked, by whomever.
    """

    process: psutil.Process
    prefect: Traffic
    cluster: AuditLog
    bucket: Sequence[Request]
    _peak: float = 0.0
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def begin(self) -> Reading:
        self._peak = 0.0
        return self._reading()

    def since(self, then: Reading) -> Cost:
        now = self._reading()
        verbs = now.cluster - then.cluster
        return Cost(
            seconds=now.at - then.at,
            prefect=now.prefect - then.prefect,
            cluster=verbs.total(),
            bucket=now.bucket - then.bucket,
            watches=self.cluster.watches,
            memory=now.memory,
            peak=max(self._peak, now.memory),
            cores=(now.busy - then.busy) / (now.at - then.at),
            by_verb=verbs,
        )

    def _reading(self) -> Reading:
        return Reading(
            at=time.monotonic(),
            prefect=len(self.prefect.asked),
            cluster=Counter(self.cluster.read()),
            bucket=sum(request.headers.get("user-agent") != OWN for request in list(self.bucket)),
            memory=self._memory(),
            busy=self._busy(),
        )

    def _watch(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._peak = max(self._peak, self._memory())

    def _family(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]

    def _memory(self) -> float:
        return sum(one.memory_info().rss for one in self._family()) / MIB

    def _busy(self) -> float:
        return sum(sum(one.cpu_times()[:2]) for one in self._family())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How far the counters were at a moment."""

    at: float
    prefect: int
    cluster: Counter[str]
    bucket: int
    memory: float
    busy: float
