"""Drivers killed at thirty moments of three missions: one JobSet at a time, the right result, and nothing is left.

Then the same on ways on which everything goes wrong that may go wrong between a driver and its servers. The moments
and the faults follow from `SEED`, which is named with whatever fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster import Cluster
from faults import Faults, Kind
from gcs import Gcs
from lives import draw
from missions import STEPS, Mission, Ordeal, Played, Stage, play, with_bucket
from nursery import nursery
from queues import QUEUE, make_queue
from ticker import whole
from way import BUCKET, CLUSTER, KINDS, POOLS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SEED, MOMENTS = 6, 10  # moments of each mission
RATE, LEAST_FAULTS = 0.15, 10  # of requests under faults, and how many of those are had in a mission
AWAY_SECONDS = 60.0
CHIPS = "v6e-8"
MISSIONS = (
    Mission(name="jobset", accelerator="cpu-2x1", servers=(CLUSTER, BUCKET), pods={"cpu": "100m"}),
    Mission(name="pools", accelerator=f"{CHIPS}:spot", servers=(CLUSTER, BUCKET, POOLS)),
    Mission(name="queue", accelerator=CHIPS, servers=(CLUSTER, BUCKET), pods={"queue": QUEUE}, prepare=make_queue),
)
NAMES = [mission.name for mission in MISSIONS]


@pytest.fixture(scope="module")
def stage(kueue: Cluster, gcs: Gcs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Nodes for all missions at once, and this process as one that takes the fake for Google."""
    with_bucket(kueue, gcs)
    nodes = kueue.add_slice(CHIPS, pool="chaos")
    folder = tmp_path_factory.mktemp("chaos")
    with pytest.MonkeyPatch.context() as patch, nursery(folder) as drivers:
        for name, value in gcs.environment.items():
            patch.setenv(name, value)
        yield Stage(cluster=kueue, gcs=gcs, nursery=drivers, folder=folder)
    kueue.delete_nodes(*nodes)


def _all_at_once(stage: Stage, ordeals: list[Ordeal]) -> dict[str, Played]:
    with ThreadPoolExecutor(len(MISSIONS)) as pool:
        played = list(pool.map(play, [stage] * len(MISSIONS), MISSIONS, ordeals))
    return dict(zip(NAMES, played, strict=True))


@pytest.fixture(scope="module")
def killed(stage: Stage) -> dict[str, Played]:
    """Each mission with moments of its own, and nothing else that goes wrong."""
    drawn = [draw(SEED + number, MOMENTS, mission.servers) for number, mission in enumerate(MISSIONS)]
    return _all_at_once(stage, [Ordeal(moments=moments) for moments in drawn])


@pytest.fixture(scope="module")
def troubled(stage: Stage) -> dict[str, Played]:
    """Each mission with faults on every way, and a driver that is killed now and then all the same."""
    ordeals = []
    for number, mission in enumerate(MISSIONS):
        faults = {
            server: Faults(seed=SEED + number, rate=RATE, away=AWAY_SECONDS, kinds=KINDS[server])
            for server in mission.servers
        }
        ordeals.append(Ordeal(moments=draw(SEED + 100 + number, 2, mission.servers), faults=faults))
    return _all_at_once(stage, ordeals)


def check(played: Played) -> None:
    told = f"seed {SEED}\n{played.story}"
    assert not played.overlaps, told
    ends = [(result["state"], (result["value"] or {}).get("total")) for result in played.results]
    assert ends == [("succeeded", whole(STEPS))] * len(played.results), told
    assert not played.left, f"{played.left} is left\n{told}"
    attempts = {result["job"]: len(result["attempts"]) for result in played.results}
    assert {job: len(made) for job, made in played.made.items()} == attempts, f"one JobSet for each attempt: {told}"
    assert not played.pools or {job: len(made) for job, made in played.pools.items()} == attempts, told
    outcomes = [attempt["outcome"] for result in played.results for attempt in result["attempts"]]
    lost = ["preempted"] if played.pools else []  # the first slice was taken back; nothing else happened to hosts
    assert [outcome for outcome in outcomes if outcome != "succeeded"] == lost, told


@pytest.mark.parametrize("mission", NAMES)
def test_a_killed_driver_loses_nothing(killed: dict[str, Played], mission: str) -> None:
    check(killed[mission])
    assert len(killed[mission].killed) == MOMENTS


@pytest.mark.parametrize("mission", NAMES)
def test_a_faulty_way_loses_nothing(troubled: dict[str, Played], mission: str) -> None:
    check(troubled[mission])
    assert troubled[mission].injected.total() >= LEAST_FAULTS


def test_everything_went_wrong_that_may_go_wrong(troubled: dict[str, Played]) -> None:
    assert {kind for played in troubled.values() for kind in played.injected} == set(Kind)
