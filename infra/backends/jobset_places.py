"""Which slices are there, whole, free or taken, by whom? Only where nodes can be seen, and lie in node pools."""

from __future__ import annotations

from dataclasses import dataclass

from prefect_tpu.infra.backends.jobset_facts import Facts
from prefect_tpu.infra.backends.jobset_slices import slices_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A pool where a slice was begun and cannot be completed. `there`: hosts it has; `host`: one of ours without."""

    pool: str
    there: int
    host: int


def place_of(facts: Facts, node: str) -> str:
    """Where a host is, in the platform's name: its node pool, else its node."""
    found = facts.nodes.get(node)
    return (found.pool if found else "") or node


def free_pools(facts: Facts) -> list[str]:
    """Those where every host of a slice could be placed now: whole, open, and nobody on them."""
    own = {pod.node: pod.name for pod in facts.pods if pod.node and not pod.has_ended}
    pooled = (node for node in facts.nodes.values() if node.pool)
    found = slices_of(facts.hosts_per_slice, pooled, {**facts.taken, **own})
    return [one.name for one in found if one.state == "free"]


def lacking(facts: Facts, index: int) -> Lacking | None:
    """The pool in which one slice of the attempt was begun and waits for a host that is not there."""
    leader = facts.leader(index)
    if leader is None or leader.has_ended or not (node := facts.node(leader)) or not node.pool:
        return None
    hosts = range(leader.host + 1, leader.host + facts.hosts_per_slice)
    waiting = [host for host in hosts if (pod := facts.pod(host)) and pod.unschedulable and not pod.has_ended]
    if not waiting:
        return None
    there = sum(1 for other in facts.nodes.values() if other.pool == node.pool and other.is_open)
    return Lacking(pool=node.pool, there=there, host=waiting[0]) if there < facts.hosts_per_slice else None


def holders(facts: Facts) -> dict[str, str]:
    """Node pool → whose pods are on it."""
    found: dict[str, str] = {}
    for node in sorted(facts.taken):
        if (at := facts.nodes.get(node)) is not None and at.pool:
            found.setdefault(at.pool, facts.taken[node])
    return found
