"""How many slices of an accelerator does a cluster have, whole, free, taken, degraded, as spot? Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prefect_tpu.infra.backends.jobset_facts import NodeFacts
from prefect_tpu.infra.checks import Check, ok, warn

_MAKE_SOME = "They may be made when a job asks (autoscaling, a queue); else make a node pool of it."


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFacts:
    """One slice of a cluster: a node pool where its hosts are joined, else a node.

    usable: of its `hosts`, those that can run one. holder: who has it. is_known: whether it could be seen who has it.
    """

    name: str
    hosts: int
    usable: int
    holder: str = ""
    is_known: bool = True
    is_spot: bool = False

    @property
    def state(self) -> str:
        if self.usable < self.hosts:
            return "degraded"
        if self.holder:
            return "taken"
        return "free" if self.is_known else "whole"


def slices_of(hosts: int, nodes: Iterable[NodeFacts], taken: Mapping[str, str] | None) -> tuple[SliceFacts, ...]:
    """The slices of so many hosts that these nodes are.

    taken: node → whose pods are on it; None where that cannot be seen.
    """
    groups: dict[str, list[NodeFacts]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        groups.setdefault(node.pool if hosts > 1 and node.pool else node.name, []).append(node)
    return tuple(
        SliceFacts(
            name=name,
            hosts=hosts,
            usable=sum(node.is_open for node in group),
            holder=next((taken[node.name] for node in group if node.name in taken), "") if taken else "",
            is_known=taken is not None,
            is_spot=any(node.is_spot for node in group),
        )
        for name, group in groups.items()
    )


def judged(accelerator: str, found: Iterable[SliceFacts], *, wants_spot: bool) -> Check:
    """Whether a job would have a slice at once, and what it would have to wait for."""
    name = f"slices of {accelerator}"
    wanted = [one for one in found if one.is_spot == wants_spot]
    others = [one for one in found if one.is_spot != wants_spot]
    other = f"; {len(others)} {'on demand' if wants_spot else 'spot'}, which this job would not take" if others else ""
    if not wanted:
        return warn(name, f"none{other}", _MAKE_SOME)
    counts = Counter(one.state for one in wanted)
    states = ", ".join(f"{counts[state]} {state}" for state in ("free", "whole", "taken", "degraded") if counts[state])
    said = f"{states}{other}{_held(wanted)}{_lacking(wanted)}"
    if counts["free"] or counts["whole"]:
        return ok(name, said)
    if counts["taken"]:
        return warn(name, said, "A job waits until one is given back, or is to be made.")
    return warn(name, said, "A job waits until the hosts are back: repair the node pool, or make another one.")


def _held(found: Iterable[SliceFacts]) -> str:
    return "".join(f"; {one.name} has {one.holder}" for one in found if one.state == "taken")


def _lacking(found: Iterable[SliceFacts]) -> str:
    return "".join(
        f"; {one.name} can use {one.usable} of {one.hosts} hosts" for one in found if one.state == "degraded"
    )
