"""On which nodes may the hosts of an attempt run? Selectors, tolerations and affinity, by GKE's labels and taints."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.accelerator_table import GENERATIONS
from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.gcp.pod_plan import PodPlan
from prefect_tpu.infra.gcp.pool_names import label_of, taint_of

_GKE = "cloud.google.com"
POOL = f"{_GKE}/gke-nodepool"
ZONE = "topology.kubernetes.io/zone"
SPOT = f"{_GKE}/gke-spot"
FLEX_START = f"{_GKE}/gke-flex-start"
QUEUED = f"{_GKE}/gke-queued"
TPU, GPU = "google.com/tpu", "nvidia.com/gpu"


def node_selector(plan: PodPlan) -> dict[str, str]:
    """Labels that a node must have; the person's own come last and may add, and change what we say."""
    ours = {**chip_labels(plan.shape), **_capacity(plan), **zone_label(plan.hosts.zone), **_own_pools(plan.hosts.pools)}
    return {**ours, **plan.pods.node_selector}


def _own_pools(pools: tuple[str, ...]) -> dict[str, str]:
    """Where pools were made for the attempt, nowhere else: several have a label in common, and a slice takes one."""
    return {} if not pools else {POOL: pools[0]} if len(pools) == 1 else label_of(pools)


def zone_label(zone: str | None) -> dict[str, str]:
    """What the nodes of a zone have; nothing where any zone will do."""
    return {} if zone is None else {ZONE: zone}


def chip_labels(shape: Slice) -> dict[str, str]:
    """Labels that nodes of such a slice have, however they are paid for; none for slices without chips."""
    if shape.gke_accelerator is None:
        return {}
    if shape.platform == "gpu":
        return {f"{_GKE}/gke-accelerator": shape.gke_accelerator}
    labels = {f"{_GKE}/gke-tpu-accelerator": shape.gke_accelerator, f"{_GKE}/gke-tpu-topology": str(shape.topology)}
    if _is_ambiguous(shape):
        labels[f"{_GKE}/gke-accelerator-count"] = str(shape.chips_per_host)
    return labels


def _is_ambiguous(shape: Slice) -> bool:
    """Whether nodes of another size have the same labels: 2x4 of v5e and v6e is one host of eight or two of four."""
    sides = tuple(map(int, str(shape.topology).split("x")))
    return any(
        machine.makes(sides) and machine.label == shape.gke_accelerator and machine.chips != shape.chips_per_host
        for machine in GENERATIONS[shape.generation].machines
    )


def _capacity(plan: PodPlan) -> dict[str, str]:
    if plan.capacity == "spot":
        return {SPOT: "true"}
    if plan.capacity == "flex-start":
        return {FLEX_START: "true"}
    if plan.reservation is None:
        return {}
    project, _, name = plan.reservation.rpartition("/reservations/")
    labels = {f"{_GKE}/reservation-name": name}
    return {**labels, f"{_GKE}/reservation-project": project.removeprefix("projects/")} if project else labels


def tolerations(plan: PodPlan) -> list[dict[str, str]]:
    """Taints of nodes that were asked for. Never the one that announces a node's end."""
    found = []
    if plan.shape.platform != "cpu":
        found.append(_tolerate(TPU if plan.shape.platform == "tpu" else GPU))
    if plan.capacity == "spot":
        found.append(_tolerate(SPOT, "true"))
    if plan.capacity == "flex-start":
        found.append(_tolerate(FLEX_START, "true"))
    if plan.capacity == "queue" or plan.pods.provisioning_request:
        found.append(_tolerate(QUEUED))
    if plan.hosts.pools and plan.shape.platform != "cpu":  # a pod without chips is none of a pool's
        own = taint_of(plan.hosts.pools[0])
        found.append(_tolerate(own["key"], own["value"]))
    return found


def _tolerate(key: str, value: str | None = None) -> dict[str, str]:
    """Without a value every one is tolerated. A spot node's is named: provisioning makes nodes by it."""
    operator = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return {"key": key, **operator, "effect": "NoSchedule"}


def affinity(plan: PodPlan) -> dict[str, Any]:
    """Labels that a node must not have: pools that lost a host, and spot nodes where nobody asked for them.

    A queue chooses the kind of its nodes itself.
    """
    unwanted = [_not_in(POOL, plan.avoid)] if plan.avoid else []
    if plan.capacity != "spot" and plan.pods.queue is None and plan.shape.platform != "cpu":
        unwanted.append(_not_in(SPOT, ("true",)))
    return _required(unwanted) if unwanted else {}


def not_on_spot() -> dict[str, Any]:
    """For a pod without chips whose end is the attempt's: a machine that may go at any time is none for it."""
    return _required([_not_in(SPOT, ("true",))])


def _required(expressions: list[dict[str, Any]]) -> dict[str, Any]:
    terms = [{"matchExpressions": expressions}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _not_in(label: str, values: tuple[str, ...]) -> dict[str, Any]:
    return {"key": label, "operator": "NotIn", "values": list(values)}
