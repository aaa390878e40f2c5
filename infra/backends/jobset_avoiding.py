"""Which node pools shall the next attempt keep away from? Those that lost hosts, while another slice is free.

Where none is, a repaired pool is better than none: an attempt that kept away from it would wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.backends.jobset_facts import NodeFacts
from prefect_tpu.infra.backends.jobset_reading import holders, read_node
from prefect_tpu.infra.backends.jobset_slices import slices_of
from prefect_tpu.infra.gcp.errors import Forbidden
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.placement import chip_labels
from prefect_tpu.infra.gcp.resources import NODES, PODS, Selection, with_labels


async def places_to_avoid(
    cluster: Kubernetes, shape: Slice, slices: int, lost: Sequence[str], selector: Mapping[str, str]
) -> tuple[str, ...]:
    """Of the places that lost hosts, those to keep away from; none where nodes and their pods cannot be seen.

    selector: by which the job chooses among such nodes; others are of no use to it.
    """
    if not lost:
        return ()
    labels = with_labels({**chip_labels(shape), **selector})
    try:
        nodes = [read_node(node) for node in await cluster.list_all(Selection(resource=NODES, labels=labels))]
        pods = await cluster.list_all(Selection(resource=PODS))
    except Forbidden:
        return ()
    return tuple(lost) if has_others(shape, slices, nodes, holders(pods), lost) else ()


def has_others(
    shape: Slice, slices: int, nodes: Iterable[NodeFacts], taken: Mapping[str, str], lost: Sequence[str]
) -> bool:
    """Whether as many slices as the job wants are free elsewhere."""
    elsewhere = slices_of(shape.hosts, [node for node in nodes if node.pool not in lost], taken)
    is_spot = shape.capacity == "spot"
    return sum(1 for one in elsewhere if one.state == "free" and one.is_spot == is_spot) >= slices
