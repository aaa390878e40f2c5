"""Which nodes does GKE make for a pool? Names, labels, taints and what pods can have of them."""

from __future__ import annotations

import hashlib
import random
from typing import Any

from container_machines import Machine, find
from google.cloud.container_v1 import NodePool, NodeTaint

Node = dict[str, Any]
_GKE = "cloud.google.com"
_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "PREFER_NO_SCHEDULE": "PreferNoSchedule", "NO_EXECUTE": "NoExecute"}
_SHARE_OF_SYSTEM = 0.1  # what GKE keeps of the smallest machine for itself; of others less
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def capacity_kind(pool: NodePool) -> str:
    """How the pool's machines are paid for: on-demand, spot, reserved, flex-start or queue."""
    if pool.queued_provisioning.enabled:
        return "queue"
    if pool.config.flex_start:
        return "flex-start"
    if pool.config.spot:
        return "spot"
    return "reserved" if pool.config.reservation_affinity.values else "on-demand"


def nodes(pool: NodePool, project: str, cluster: str, count: int) -> list[Node]:
    """So many nodes, each of a new name, spread over the pool's zones."""
    machine = find(pool.config.machine_type)
    assert machine is not None, pool.config.machine_type  # it was refused before
    return [
        _node(pool, machine, project, cluster, str(pool.locations[number % len(pool.locations)]))
        for number in range(count)
    ]


def _node(pool: NodePool, machine: Machine, project: str, cluster: str, zone: str) -> Node:
    group = hashlib.sha256(f"{project}/{cluster}/{pool.name}/{zone}".encode()).hexdigest()[:8]
    ending = f"{group}-{''.join(random.choices(_LETTERS, k=4))}"
    begin = "gke-tpu" if machine.is_tpu else f"gke-{cluster}-{pool.name}"[:49].rstrip("-")
    name = f"{begin}-{ending}"
    resources = _resources(pool, machine)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(pool, machine, zone) | {"kubernetes.io/hostname": name}},
        "spec": {"taints": _taints(pool, machine), "providerID": f"gce://{project}/{zone}/{name}"},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _resources(pool: NodePool, machine: Machine) -> dict[str, str]:
    pods = pool.max_pods_constraint.max_pods_per_node or 110
    left = 1 - _SHARE_OF_SYSTEM
    plain = {
        "cpu": f"{int(machine.cpus * 1000 - 500)}m",
        "memory": f"{int(machine.memory_gb * left * 1000)}M",
        "ephemeral-storage": "100Gi",
        "pods": str(pods),
    }
    if machine.is_tpu:
        return plain | {"google.com/tpu": str(machine.chips)}
    gpus = sum(one.accelerator_count for one in pool.config.accelerators)
    return plain | ({"nvidia.com/gpu": str(gpus)} if gpus else {})


def topology_of(pool: NodePool, machine: Machine) -> str | None:
    """What the chips of a slice of this pool look like."""
    return str(pool.placement_policy.tpu_topology) or machine.alone


def _labels(pool: NodePool, machine: Machine, zone: str) -> dict[str, str]:
    found = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": machine.name,
        "topology.kubernetes.io/region": zone.rpartition("-")[0],
        "topology.kubernetes.io/zone": zone,
        f"{_GKE}/gke-nodepool": str(pool.name),
        f"{_GKE}/machine-family": machine.family,
    }
    return found | dict(pool.config.labels) | _of_chips(pool, machine) | _of_capacity(pool)


def _of_chips(pool: NodePool, machine: Machine) -> dict[str, str]:
    if machine.is_tpu:
        found = {
            f"{_GKE}/gke-tpu-accelerator": str(machine.label),
            f"{_GKE}/gke-tpu-topology": str(topology_of(pool, machine)),
            f"{_GKE}/gke-accelerator-count": str(machine.chips),
        }
        policy = str(pool.placement_policy.policy_name)
        return found | ({f"{_GKE}/placement-policy-name": policy} if policy else {})
    return {f"{_GKE}/gke-accelerator": str(one.accelerator_type) for one in pool.config.accelerators[:1]}


def _of_capacity(pool: NodePool) -> dict[str, str]:
    kind = capacity_kind(pool)
    if kind == "spot":
        return {f"{_GKE}/gke-spot": "true", f"{_GKE}/gke-provisioning": "spot"}
    if kind in ("flex-start", "queue"):
        found = {f"{_GKE}/gke-provisioning": "flex-start"} if pool.config.flex_start else {}
        return found | ({f"{_GKE}/gke-flex-start": "true"} if pool.config.flex_start else {})
    found = {f"{_GKE}/gke-provisioning": "standard"}
    if kind == "reserved":
        project, _, name = str(pool.config.reservation_affinity.values[0]).rpartition("/reservations/")
        found[f"{_GKE}/reservation-name"] = name
        if project:
            found[f"{_GKE}/reservation-project"] = project.removeprefix("projects/")
    return found


def _taints(pool: NodePool, machine: Machine) -> list[dict[str, str]]:
    own = [
        {"key": one.key, "value": one.value, "effect": _EFFECTS[NodeTaint.Effect(one.effect).name]}
        for one in pool.config.taints
    ]
    if machine.is_tpu:
        own.append(_taint("google.com/tpu", "present"))
    if pool.config.accelerators:
        own.append(_taint("nvidia.com/gpu", "present"))
    if pool.queued_provisioning.enabled:
        own.append(_taint(f"{_GKE}/gke-queued", "true"))
    return own


def _taint(key: str, value: str) -> dict[str, str]:
    return {"key": key, "value": value, "effect": "NoSchedule"}
