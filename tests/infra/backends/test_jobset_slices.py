"""Slices are counted by node pool or by node; what a job would wait for is said with what to do."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.backends.jobset_facts import NodeFacts
from prefect_tpu.infra.backends.jobset_slices import judged, slices_of
from prefect_tpu.infra.checks import Verdict

FOUR_HOSTS, ONE_HOST = 4, 1


def pool(name: str, *, hosts: int = 4, closed: int = 0, is_spot: bool = False) -> list[NodeFacts]:
    return [
        NodeFacts(name=f"{name}-{host}", pool=name, is_open=host >= closed, is_spot=is_spot) for host in range(hosts)
    ]


def test_joined_hosts_are_one_slice_and_single_hosts_are_many() -> None:
    nodes = [*pool("a"), *pool("b")]
    assert [one.name for one in slices_of(FOUR_HOSTS, nodes, {})] == ["a", "b"]
    assert len(slices_of(ONE_HOST, nodes, {})) == 8


@pytest.mark.parametrize(
    ("nodes", "taken", "states"),
    [
        (pool("a"), {}, ["free"]),
        (pool("a"), {"a-3": "job 'x' (attempt 1)"}, ["taken"]),
        (pool("a"), None, ["whole"]),
        (pool("a", closed=1), {"a-3": "job 'x' (attempt 1)"}, ["degraded"]),
        (pool("a", hosts=3), {}, ["degraded"]),
        ([], {}, []),
    ],
)
def test_the_state_of_a_slice(nodes: list[NodeFacts], taken: dict[str, str] | None, states: list[str]) -> None:
    assert [one.state for one in slices_of(FOUR_HOSTS, nodes, taken)] == states


@pytest.mark.parametrize(
    ("nodes", "taken", "verdict", "said"),
    [
        ([*pool("a"), *pool("b")], {}, Verdict.OK, "2 free"),
        ([*pool("a"), *pool("b")], {"a-0": "job 'x' (attempt 1)"}, Verdict.OK, "1 free, 1 taken; a has job 'x'"),
        (pool("a"), {"a-0": "pod 'p' of namespace 'n'"}, Verdict.WARN, "1 taken; a has pod 'p'"),
        (pool("a", closed=1), {}, Verdict.WARN, "1 degraded; a can use 3 of 4 hosts"),
        (pool("s", is_spot=True), {}, Verdict.WARN, "none; 1 spot, which this job would not take"),
        ([], {}, Verdict.WARN, "none"),
        (pool("a"), None, Verdict.OK, "1 whole"),
    ],
)
def test_what_is_said_of_them(nodes: list[NodeFacts], taken: dict[str, str] | None, verdict: str, said: str) -> None:
    check = judged("v6e-16", slices_of(FOUR_HOSTS, nodes, taken), wants_spot=False)
    assert (check.name, check.verdict) == ("slices of v6e-16", verdict) and said in check.found
    assert bool(check.advice) == (verdict is not Verdict.OK)


def test_a_job_on_spot_takes_spot_alone() -> None:
    found = slices_of(FOUR_HOSTS, [*pool("a"), *pool("s", is_spot=True)], {})
    assert judged("v6e-16:spot", found, wants_spot=True).found == "1 free; 1 on demand, which this job would not take"
