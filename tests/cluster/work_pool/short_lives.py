"""The lives of a pool's workers: each seat has one worker, which is killed at a moment and followed by another one."""

from __future__ import annotations

import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from background import InBackground
from faults import Asked, Moment
from pool_workers import Worker
from prefect_way import sort_of, way_to
from rights import WORKER
from slice_pool import SlicePool
from way import BUCKET, CLUSTER, Ends, Way, way

from prefect_tpu.flows.work_pool.template import Template

PREFECT = "prefect"  # what the server is called in what passed
PATIENCE = 15.0  # for a moment that does not come: then an earlier one will do
LOOK_SECONDS = 0.1
_ASKS = re.compile(r"/(filter|get_scheduled_flow_runs|heartbeat|count\w*|logs/?)$")  # by POST, and nothing changes
# (server, whether what changes nothing counts too, the last one there is likely to be)
KINDS = (
    (PREFECT, False, 12),
    (PREFECT, False, 40),
    (PREFECT, True, 100),
    (CLUSTER, False, 10),
    (CLUSTER, True, 40),
    (BUCKET, False, 30),
    (BUCKET, False, 90),
    ("", True, 400),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Moment):
    """The nth request that changes something; at Prefect questions are asked by POST too."""

    def counts(self, asked: Asked) -> bool:
        is_change = asked.is_write and not (asked.server == PREFECT and _ASKS.search(sort_of(asked)))
        return is_change and self.server in ("", asked.server)


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """At which moment a worker was killed, and over which request."""

    moment: Moment
    asked: str

    def __str__(self) -> str:
        when = "after" if self.moment.is_done else "before"
        return f"{when} {self.asked}"


@dataclass(slots=True, kw_only=True)
class Due:
    """Moments that have not struck yet, and the deaths of those that have. Shared by all seats."""

    moments: list[Moment]
    deaths: list[Death] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)  # what workers said that were not killed and left all the same
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: int = 0

    @property
    def is_any(self) -> bool:
        return bool(self.moments or self._open)

    def next(self) -> Moment | None:
        with self._lock:
            if not self.moments:
                return None
            self._open += 1
            return self.moments.pop(0)

    def struck(self, death: Death) -> None:
        with self._lock:
            self._open -= 1
            self.deaths.append(death)

    def missed(self, moment: Moment) -> None:
        """Its worker was gone before: another one has it."""
        with self._lock:
            self._open -= 1
            self.moments.append(moment)


class ShortLives(InBackground):
    """Goes on for as long as it is entered; then one worker in each seat lives on."""

    def __init__(self, pool: SlicePool, ways: Sequence[Way], due: Due) -> None:
        super().__init__(*(partial(self._seat, one) for one in ways))
        self._pool, self.due = pool, due

    def _seat(self, path: Way) -> None:
        while not self.is_over.is_set():
            worker = self._pool.workers.start(**path.environment)
            self._live(path, worker, self.due.next())
            path.traffic.disarm()

    def _live(self, path: Way, worker: Worker, moment: Moment | None) -> None:
        struck: list[Death] = []
        until = 0.0
        while worker.process.poll() is None and not self.is_over.is_set():
            if moment is not None and not struck and time.monotonic() > until:
                moment = replace(moment, nth=max(1, moment.nth // 2)) if until else moment
                until = time.monotonic() + PATIENCE
                path.traffic.arm(moment, partial(_strike, path, worker, moment, struck))
            time.sleep(LOOK_SECONDS)
        for death in struck:
            self.due.struck(death)
        if moment is not None and not struck:
            self.due.missed(moment)
        if worker.process.poll() not in (None, -signal.SIGKILL):
            self.due.ended.append(worker.said)


def _strike(path: Way, worker: Worker, moment: Moment, struck: list[Death]) -> None:
    asked = path.traffic.asked[-1]
    what = sort_of(asked) if asked.server == PREFECT else f"{asked.method} {_sort(asked.target)}"
    struck.append(Death(moment=moment, asked=f"{asked.server} {what}"))
    worker.kill()


def _sort(target: str) -> str:
    """Of a request to the cluster or the bucket, for people."""
    return re.sub(r"t-[0-9a-f]{12}", "JOB", target.partition("?")[0])


@contextmanager
def ways_of(pool: SlicePool, seats: int) -> Iterator[list[Way]]:
    """The way of each seat's workers to Prefect, the cluster and the bucket. Nothing goes wrong on it but its end."""
    stage = pool.stage
    ends = Ends(cluster=stage.cluster, namespace=pool.namespace, account=WORKER, gcs=stage.gcs)
    with ExitStack() as running:
        found = []
        for seat in range(seats):
            folder = stage.folder / f"{pool.name}-seat-{seat}"
            folder.mkdir()
            found.append(running.enter_context(_way(pool, ends, folder)))
        yield found


@contextmanager
def _way(pool: SlicePool, ends: Ends, folder: Path) -> Iterator[Way]:
    with way(ends, folder, {}) as found, way_to(pool.server, found.traffic) as prefect:
        environment = {**found.environment, "PREFECT_API_URL": f"{prefect.url}/api"}
        yield replace(found, environment=environment, proxies={**found.proxies, PREFECT: prefect})


def leads_past(url: str) -> Callable[[Template], Template]:
    """A change of a pool: pods reach Prefect by a way of their own, so that only requests of workers pass here."""

    def change(template: Template) -> Template:
        env = template["variables"]["properties"]["env"]
        env["default"] = {**env["default"], "PREFECT_API_URL": url}
        return template

    return change


def draw(seed: int, count: int) -> list[Moment]:
    """So many moments, before and after the server has done what it was asked for."""
    chance, found = random.Random(seed), []
    for number in range(count):
        server, counts_all, last = KINDS[number % len(KINDS)]
        kind = Moment if counts_all else Change
        found.append(kind(nth=chance.randint(1, last), server=server, is_done=chance.random() < 0.6))
    chance.shuffle(found)
    return found
