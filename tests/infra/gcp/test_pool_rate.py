"""Changes of node pools are spread over time for each project, and never sent side by side to one cluster."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.gcp.pool_rate import Gates, TokenBucket


@dataclass
class Clock:
    """Time that passes where somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def bucket(clock: Clock, burst: float = 3, per_second: float = 0.5) -> TokenBucket:
    return TokenBucket(burst, per_second, lambda: clock.now, clock.sleep)


def test_a_few_at_once_and_then_one_now_and_then() -> None:
    clock = Clock()
    tokens = bucket(clock)
    for _ in range(5):
        tokens.take()
    assert clock.slept == [2.0, 2.0]


def test_it_fills_again_and_never_over_its_brim() -> None:
    clock = Clock()
    tokens = bucket(clock)
    for _ in range(3):
        tokens.take()
    clock.now += 1_000
    for _ in range(4):
        tokens.take()
    assert clock.slept == [2.0]


@given(st.lists(st.floats(0, 30), max_size=60))
def test_no_minute_sees_more_than_the_burst_and_what_flows_in(pauses: list[float]) -> None:
    clock, taken = Clock(), list[float]()
    tokens = bucket(clock)
    for pause in pauses:
        clock.now += pause
        tokens.take()
        taken.append(clock.now)
    for start in taken:
        assert sum(start <= at < start + 60 for at in taken) <= 3 + 0.5 * 60 + 1


def cluster(project: str, name: str) -> GkeCluster:
    return GkeCluster(project=project, location="us-east5", cluster=name)


def test_a_project_has_its_own_bucket_and_clusters_of_it_share_one() -> None:
    clock = Clock()
    gates = Gates(lambda: bucket(clock, burst=1))
    for project, name in (("a", "one"), ("b", "one"), ("a", "two")):
        with gates.change(cluster(project, name)):
            pass
    assert clock.slept == [2.0]


def test_a_cluster_is_changed_by_one_at_a_time() -> None:
    gates = Gates(lambda: TokenBucket(1_000, 1_000))
    inside, most, lock = 0, 0, threading.Lock()

    def change(_: int) -> None:
        nonlocal inside, most
        with gates.change(cluster("a", "one")):
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.001)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(40)))
    assert most == 1


def test_a_failed_change_leaves_the_way_free() -> None:
    gates = Gates(lambda: TokenBucket(10, 10))
    for _ in range(2):
        try:
            with gates.change(cluster("a", "one")):
                raise ValueError
        except ValueError:
            continue
    with gates.change(cluster("a", "one")):
        pass
