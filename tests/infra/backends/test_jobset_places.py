"""A slice that was begun in a pool that lacks a host waits there, or leaves it where another one is free."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset_facts import ContainerFacts, Facts, JobSetFacts, NodeFacts, PodFacts
from prefect_tpu.infra.backends.jobset_places import Lacking, free_pools, holders, lacking, place_of
from prefect_tpu.infra.backends.jobset_symptoms import DEGRADED_SECONDS, unbearable
from prefect_tpu.infra.errors import FailureKind

HOSTS = 2


def pool(name: str, *, closed: int = 0) -> dict[str, NodeFacts]:
    nodes = (NodeFacts(name=f"{name}{host}", pool=name, is_open=host >= closed) for host in range(HOSTS))
    return {node.name: node for node in nodes}


def pod(host: int, *, node: str = "", **more: Any) -> PodFacts:
    container = ContainerFacts(is_running=bool(node))
    unschedulable = "" if node else "no node"
    return PodFacts(
        name=f"p{host}",
        uid=f"u{host}",
        host=host,
        slice=0,
        phase="Pending",
        node=node,
        unschedulable=unschedulable,
        container=container,
        **more,
    )


def begun(nodes: dict[str, NodeFacts], *pods: PodFacts, **more: Any) -> Facts:
    jobset = JobSetFacts(name="j-1", uid="u")
    return Facts(attempt=1, slices=1, hosts=HOSTS, jobset=jobset, was_there=True, pods=pods, nodes=nodes, **more)


LEADER, FOLLOWER = pod(0, node="a1"), pod(1)
DEGRADED = {**pool("a", closed=1), **pool("b")}


def test_the_pool_that_lacks_a_host_is_named_with_what_it_has() -> None:
    assert lacking(begun(DEGRADED, LEADER, FOLLOWER), 0) == Lacking(pool="a", there=1, host=1)


@pytest.mark.parametrize(
    "seen",
    [
        begun(DEGRADED),
        begun(DEGRADED, pod(0), FOLLOWER),  # the leader itself waits: for a slice
        begun({**pool("a"), **pool("b")}, LEADER, FOLLOWER),  # its follower gets its node in a moment
        begun(DEGRADED, LEADER, pod(1, node="a0")),
        begun({}, LEADER, FOLLOWER),  # nodes cannot be seen
    ],
)
def test_nothing_is_lacking_where_every_host_has_or_may_get_a_node(seen: Facts) -> None:
    assert lacking(seen, 0) is None


@pytest.mark.parametrize(
    ("nodes", "taken", "free"),
    [
        ({}, {}, ["b"]),
        ({}, {"b1": "job 'x' (attempt 1)"}, []),
        (pool("b", closed=1), {}, []),
        ({"b1": NodeFacts(name="b1", pool="c")}, {}, []),
        (pool("c"), {}, ["b", "c"]),
        (
            {"x": NodeFacts(name="x", pool=""), "y": NodeFacts(name="y", pool="")},
            {},
            ["b"],
        ),  # not joined
    ],
)
def test_a_pool_is_free_where_every_host_of_a_slice_could_be_placed(
    nodes: dict[str, NodeFacts], taken: dict[str, str], free: list[str]
) -> None:
    seen = begun({**DEGRADED, **nodes}, LEADER, FOLLOWER, taken=taken)
    assert free_pools(seen) == free
    assert holders(seen) == ({"b": "job 'x' (attempt 1)"} if taken else {})


def test_a_pool_that_this_attempt_is_in_is_not_free_for_it() -> None:
    assert free_pools(begun(pool("a"), LEADER)) == []


def test_it_is_left_after_a_moment_and_only_where_another_one_is_free() -> None:
    lasting = {("unschedulable", "a"): DEGRADED_SECONDS}
    (found,) = unbearable(begun(DEGRADED, LEADER, FOLLOWER), lasting)
    assert (found.cause.kind, found.host, found.place) == (FailureKind.UNSCHEDULABLE, 1, "a")
    assert not found.is_end and "pool a has 1 of the 2 hosts of a slice, and b is free" in found.cause.message
    assert unbearable(begun(DEGRADED, LEADER, FOLLOWER), {}) == ()
    assert unbearable(begun(DEGRADED, LEADER, FOLLOWER, taken={"b0": "job 'x'"}), lasting) == ()


def test_a_place_is_a_pool_where_there_is_one() -> None:
    seen = begun({**pool("a"), "x": NodeFacts(name="x", pool="")})
    assert [place_of(seen, node) for node in ("a1", "x", "unseen")] == ["a", "x", "unseen"]
