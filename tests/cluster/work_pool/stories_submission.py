"""A run on its way from Prefect to its slice: the worker dies on it, and the server refuses, breaks and is away.

Each story has a pool of its own, whose workers reach Prefect by a way that the story spoils.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from faults import NONE, Asked, Fault, Faults, Kind, Moment, Traffic
from faulty import Faulty
from pool_workers import Worker
from prefect_server import wait_for
from prefect_way import EachInTurn, sort_of, way_to
from scenes import Played, Scene, Story, played
from short_lives import leads_past, ways_of
from slice_pool import SlicePool, slice_pool
from slice_runs import SliceRun

ONE_HOST = {"accelerator": "cpu-1x1"}
TROUBLED_RUNS = 3
AWAY_SECONDS = 10.0
DEATH_SECONDS = 120.0
SEED, FAULT_RATE = 11, 0.25
FAULTS = (Kind.BUSY, Kind.BROKEN, Kind.LATE, Kind.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class At(Moment):
    """The first request of a sort from now on."""

    sort: str

    def counts(self, asked: Asked) -> bool:
        return sort_of(asked) == self.sort


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A pool, and its workers' way to Prefect."""

    pool: SlicePool
    proxy: Faulty
    traffic: Traffic

    def start_worker(self) -> Worker:
        """It asks once: what its client tries again by itself would hide what becomes of a refusal."""
        url = f"{self.proxy.url}/api"
        return self.pool.workers.start(PREFECT_API_URL=url, PREFECT_CLIENT_MAX_RETRIES="0")

    def start(self) -> SliceRun:
        """A run whose own way to Prefect is free."""
        direct = self.pool.server.environment["PREFECT_API_URL"]
        env = {"PREFECT_API_URL": direct, "PREFECT_CLIENT_MAX_RETRIES": "5"}
        return self.pool.start(self.pool.deploy("once", **ONE_HOST, env=env))


@contextmanager
def new_way(scene: Scene) -> Iterator[Way]:
    traffic, server = Traffic(), scene.pool.server
    with slice_pool(scene.pool.stage, server, scene.name) as pool, way_to(server, traffic) as proxy:
        yield Way(pool=pool, proxy=proxy, traffic=traffic)


@dataclass(slots=True, kw_only=True)
class Noting:
    """A plan that keeps in mind what it strikes. struck: server and sort of request → how often."""

    plan: Faults
    struck: Counter[str] = field(default_factory=Counter)

    def of(self, number: int, asked: Asked, before: Counter[Kind]) -> Fault | None:
        fault = self.plan.of(number, asked, before)
        if fault is not None:
            self.struck[f"{asked.server} {sort_of(asked)}"] += 1
        return fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What came of runs. struck: how often each sort of request went wrong. told: by their workers.

    away: what came of one that was cancelled while the server was away. status: of the worker that was killed.
    """

    runs: list[Played]
    told: str
    struck: Counter[str]
    away: Played | None = None
    status: int | None = None


def on_request(moment: At) -> Callable[[Way, Worker], SliceRun]:
    """The worker is killed over this request."""

    def kill(way: Way, worker: Worker) -> SliceRun:
        way.traffic.arm(moment, worker.kill)
        return way.start()

    return kill


def once_written(way: Way, worker: Worker) -> SliceRun:
    run = way.start()
    run.wait_for_job()
    worker.kill()
    return run


def once_sent(way: Way, worker: Worker) -> SliceRun:
    run = way.start()
    wait_for(run.jobsets, f"the JobSet of {run}")
    worker.kill()
    return run


def killed(by: Callable[[Way, Worker], SliceRun]) -> Callable[[Scene], Submitted]:
    """A worker is killed over a run, and another one comes."""

    def play(scene: Scene) -> Submitted:
        with new_way(scene) as way:
            worker = way.start_worker()
            way.pool.wait_for_workers(1)
            run = by(way, worker)
            status = worker.process.wait(DEATH_SECONDS)
            way.start_worker()
            run.let_go_on()
            found = [played(run, way.pool)]
            return Submitted(runs=found, told=way.pool.workers.told(), struck=Counter(), status=status)

    return play


def troubled(scene: Scene) -> Submitted:
    """Each sort of request of a worker goes wrong in each way, some time; then the server is away for a while."""
    plan = EachInTurn()
    with new_way(scene) as way:
        way.start_worker()
        way.pool.wait_for_workers(1)
        way.proxy.faults = plan
        runs = [way.start() for _ in range(TROUBLED_RUNS)]
        for run in runs:
            run.let_go_on()
            run.wait_for_job()  # before, a crash is none for good
        found = [played(run, way.pool) for run in runs]
        way.proxy.faults = NONE
        away = _cancelled_while_away(way)
        return Submitted(runs=found, told=way.pool.workers.told(), struck=plan.struck, away=away)


def troubled_everywhere(scene: Scene) -> Submitted:
    """Of all that a worker asks of anybody a part goes wrong, from the runs' start to their end."""
    server = scene.pool.server
    plan = Noting(plan=Faults(seed=SEED, rate=FAULT_RATE, kinds=FAULTS))
    pools = slice_pool(scene.pool.stage, server, scene.name, leads_past(server.environment["PREFECT_API_URL"]))
    with pools as pool, ways_of(pool, 1) as (way,):
        pool.workers.start(**way.environment)
        pool.wait_for_workers(1)
        for proxy in way.proxies.values():
            proxy.faults = plan
        runs = [pool.start(pool.deploy("once", **ONE_HOST)) for _ in range(TROUBLED_RUNS)]
        for run in runs:
            run.let_go_on()
            run.wait_for_job()  # before, a crash is none for good
        found = [played(run, pool) for run in runs]
        return Submitted(runs=found, told=pool.workers.told(), struck=plan.struck)


def _cancelled_while_away(way: Way) -> Played:
    """The worker has not heard of it, and finds out."""
    run = way.start()
    run.wait_until_up(1, 1)
    way.proxy.leave(AWAY_SECONDS)
    run.set_state("CANCELLED", "Cancelled", is_forced=True)
    return played(run, way.pool)


PENDING = At(nth=1, sort="PATCH /flow_runs/ID")  # nothing is written down
WITH_PID = At(nth=1, sort="PATCH /flow_runs/ID", is_done=True)
KILLED = [
    Story(name="killed-pending", play=killed(on_request(PENDING)), waits=True),
    Story(name="killed-with-pid", play=killed(on_request(WITH_PID)), waits=True),
    Story(name="killed-written", play=killed(once_written), waits=True),
    Story(name="killed-sent", play=killed(once_sent), waits=True),
]
TROUBLED = Story(name="troubled", play=troubled, waits=True)
TROUBLED_EVERYWHERE = Story(name="troubled-everywhere", play=troubled_everywhere, waits=True)
