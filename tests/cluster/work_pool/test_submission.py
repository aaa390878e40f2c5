"""A run on its way from Prefect to its slice: whoever dies and whatever fails in between, it is started, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from faults import NONE, Asked, Moment, Traffic
from faulty import Faulty
from prefect_server import Server, wait_for
from prefect_way import EachInTurn, sort_of, way_to
from scenes import Played, played
from slice_pool import SlicePool
from slice_runs import SliceRun

pytestmark = [pytest.mark.work_pool, pytest.mark.timeout(1500)]

ONE_HOST = {"accelerator": "cpu-1x1"}
TROUBLED_RUNS = 6
AWAY_SECONDS = 10.0
# What a worker asks of Prefect between the run that it is handed and the infrastructure id that it stores.
STEPS = {
    "POST /work_pools/NAME/get_scheduled_flow_runs",
    "GET /deployments/ID",
    "GET /flows/ID",
    "POST /flow_runs/ID/set_state",
    "PATCH /flow_runs/ID/labels",
    "PATCH /flow_runs/ID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class At(Moment):
    """The first request of a sort from now on."""

    sort: str

    def counts(self, asked: Asked) -> bool:
        return sort_of(asked) == self.sort


DEATHS = {
    "pending": At(nth=1, sort="PATCH /flow_runs/ID"),  # nothing is written down
    "with-pid": At(nth=1, sort="PATCH /flow_runs/ID", is_done=True),
    "written": None,
    "sent": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """A pool whose workers reach Prefect by a way that a test spoils."""

    pool: SlicePool
    proxy: Faulty
    traffic: Traffic

    def environment(self) -> dict[str, str]:
        """Of a worker. It asks once: what its client tries again by itself would hide what becomes of a refusal."""
        return {"PREFECT_API_URL": f"{self.proxy.url}/api", "PREFECT_CLIENT_MAX_RETRIES": "0"}

    def start(self) -> SliceRun:
        """A run whose own way to Prefect is free."""
        direct = self.pool.server.environment["PREFECT_API_URL"]
        env = {"PREFECT_API_URL": direct, "PREFECT_CLIENT_MAX_RETRIES": "5"}
        return self.pool.start(self.pool.deploy("once", **ONE_HOST, env=env))


@pytest.fixture(scope="module")
def new_way(postgres: Server, new_pool: Callable[[Server, str], SlicePool]) -> Iterator[Callable[[str], Way]]:
    traffic = Traffic()
    with way_to(postgres, traffic) as proxy:
        yield lambda name: Way(pool=new_pool(postgres, name), proxy=proxy, traffic=traffic)


@pytest.mark.parametrize("death", DEATHS)
def test_a_worker_is_killed_while_it_submits(new_way: Callable[[str], Way], death: str) -> None:
    way = new_way(death)
    killed = way.pool.workers.start(**way.environment())
    way.pool.wait_for_workers(1)
    if moment := DEATHS[death]:
        way.traffic.arm(moment, killed.kill)
    run = way.start()
    if death == "written":
        wait_for(lambda: run.has_job, f"the job of {run}")
        killed.kill()
    elif death == "sent":
        wait_for(run.jobsets, f"the JobSet of {run}")
        killed.kill()
    assert killed.process.wait(120) != 0, killed.said
    way.pool.workers.start(**way.environment())
    run.let_go_on()
    found = played(run, way.pool)
    assert found.state[0] == "COMPLETED", (found.told, way.pool.workers.told())
    assert found.jobsets == 1 and found.began == 1, found.told
    assert run.read()["infrastructure_pid"] == run.folder.url


@pytest.fixture(scope="module")
def troubled(new_way: Callable[[str], Way]) -> tuple[Way, EachInTurn, list[Played]]:
    """Runs of a worker to whom each sort of request goes wrong, in each way, some time."""
    way, plan = new_way("troubled"), EachInTurn()
    way.pool.workers.start(**way.environment())
    way.pool.wait_for_workers(1)
    way.proxy.faults = plan
    runs = [way.start() for _ in range(TROUBLED_RUNS)]
    for run in runs:
        run.let_go_on()
    found = [played(run, way.pool) for run in runs]
    way.proxy.faults = NONE
    return way, plan, found


def test_refusals_at_each_step_lose_no_run(troubled: tuple[Way, EachInTurn, list[Played]]) -> None:
    way, plan, found = troubled
    told = ([one.told for one in found], plan.struck, way.pool.workers.told())
    assert {one.state[0] for one in found} == {"COMPLETED"}, told
    assert {(one.jobsets, one.began) for one in found} == {(1, 1)}, told


def test_every_step_was_refused(troubled: tuple[Way, EachInTurn, list[Played]]) -> None:
    _, plan, _ = troubled
    assert {sort: plan.struck[sort] for sort in STEPS} == dict.fromkeys(STEPS, len(plan.troubles))


def test_a_run_is_cancelled_while_the_server_is_away(troubled: tuple[Way, EachInTurn, list[Played]]) -> None:
    """The worker has not heard of it, and finds out."""
    way, _, _ = troubled
    run = way.start()
    run.wait_until_up(1, 1)
    way.proxy.leave(AWAY_SECONDS)
    run.set_state("CANCELLED", "Cancelled", is_forced=True)
    found = played(run, way.pool)
    assert found.state == ("CANCELLED", "Cancelled") and found.outcomes == ["stopped"], found.told
