"""Which slices are there, whole, free or taken, by whom? Only where nodes can be seen, and lie in node pools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prefect_tpu.infra.backends.jobset_facts import Facts, NodeFacts


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


def pools(facts: Facts) -> dict[str, list[NodeFacts]]:
    """The node pools that could hold a slice of this kind, each with its nodes."""
    found: dict[str, list[NodeFacts]] = {}
    for node in sorted(facts.nodes.values(), key=lambda node: node.name):
        if node.pool:
            found.setdefault(node.pool, []).append(node)
    return found


def free_pools(facts: Facts) -> list[str]:
    """Those where every host of a slice could be placed now: whole, open, and nobody on them."""
    own = {pod.node for pod in facts.pods if not pod.has_ended}
    free = []
    for name, nodes in pools(facts).items():
        usable = [node for node in nodes if node.is_open and node.name not in facts.taken and node.name not in own]
        if len(usable) >= facts.hosts_per_slice and len(usable) == len(nodes):
            free.append(name)
    return free


def lacking(facts: Facts, index: int) -> Lacking | None:
    """The pool in which one slice of the attempt was begun and waits for a host that is not there."""
    leader = facts.leader(index)
    if leader is None or leader.has_ended or not (node := facts.node(leader)) or not node.pool:
        return None
    hosts = range(leader.host + 1, leader.host + facts.hosts_per_slice)
    waiting = [host for host in hosts if (pod := facts.pod(host)) and pod.unschedulable and not pod.has_ended]
    there = usable(pools(facts)[node.pool])
    return Lacking(pool=node.pool, there=there, host=waiting[0]) if waiting and there < facts.hosts_per_slice else None


def usable(nodes: Sequence[NodeFacts]) -> int:
    """How many of these nodes can run a host."""
    return sum(1 for node in nodes if node.is_open)


def holders(facts: Facts) -> dict[str, str]:
    """Node pool → whose pods are on it."""
    found: dict[str, str] = {}
    for node in sorted(facts.taken):
        if (at := facts.nodes.get(node)) is not None and at.pool:
            found.setdefault(at.pool, facts.taken[node])
    return found
