"""Which node pools shall the next attempt keep away from? Those that lost hosts, while another slice is free.

Where none is, a repaired pool is better than none: an attempt that kept away from it would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.backends.jobset_facts import NodeFacts
from prefect_tpu.infra.backends.jobset_reading import holders, read_node
from prefect_tpu.infra.backends.jobset_slices import slices_of
from prefect_tpu.infra.backends.jobset_sources import SharedSources, shared_sources
from prefect_tpu.infra.gcp.errors import Forbidden
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.placement import chip_labels
from prefect_tpu.infra.gcp.resources import NODES, PODS, Selection, with_labels


async def places_to_avoid(
    cluster: Kubernetes,
    where: tuple[str | None, str],
    shape: Slice,
    slices: int,
    lost: Sequence[str],
    selector: Mapping[str, str],
) -> tuple[str, ...]:
    """Of the places that lost hosts, those to keep away from; none where nodes and their pods cannot be seen.

    where: how the cluster is asked for, and the namespace of the job's pods.
    selector: by which the job chooses among such nodes; others are of no use to it.
    """
    if not lost:
        return ()
    labels = {**chip_labels(shape), **selector}
    together = await shared_sources(cluster, *where)
    try:
        found = await (_listed(cluster, labels) if together is None else _remembered(together, labels))
    except Forbidden:
        return ()
    return tuple(lost) if has_others(shape, slices, *found, lost) else ()


async def _listed(cluster: Kubernetes, labels: Mapping[str, str]) -> tuple[list[NodeFacts], Mapping[str, str]]:
    """The nodes with these labels, and who has which node."""
    nodes = await cluster.list_all(Selection(resource=NODES, labels=with_labels(labels)))
    return [read_node(node) for node in nodes], holders(await cluster.list_all(Selection(resource=PODS)))


async def _remembered(sources: SharedSources, labels: Mapping[str, str]) -> tuple[list[NodeFacts], Mapping[str, str]]:
    """The same as many attempts learn of it together: a list of hundreds for each of them would hold up all others.

    Who else has a node may be known of some seconds ago; that a pod of ours has it is known at once.
    """
    others = {node: who for node, _, who in await sources.around.holders()}
    ours = holders(sources.pods.everything())
    nodes = [node for node in await sources.all_nodes() if labels.items() <= node["metadata"].get("labels", {}).items()]
    return [read_node(node) for node in nodes], {**others, **ours}


def has_others(
    shape: Slice, slices: int, nodes: Iterable[NodeFacts], taken: Mapping[str, str], lost: Sequence[str]
) -> bool:
    """Whether as many slices as the job wants are free elsewhere."""
    elsewhere = slices_of(shape.hosts, [node for node in nodes if node.pool not in lost], taken)
    is_spot = shape.capacity == "spot"
    return sum(1 for one in elsewhere if one.state == "free" and one.is_spot == is_spot) >= slices
