"""The nodes of GKE's node pools as objects: a slice's, by our own table of accelerators, and plain CPU ones."""

from __future__ import annotations

from typing import Any

from control_plane import Object

from prefect_tpu.infra.accelerators import Slice, resolve

ZONE = "us-east5-b"
TPU_TAINT = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
SPOT_TAINT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
QUEUED_TAINT = {"key": "cloud.google.com/gke-queued", "value": "true", "effect": "NoSchedule"}

ROOM = {"cpu": "224", "memory": "1340Gi"}  # of the largest machine: hosts ask for most of what theirs has


def slice_nodes(accelerator: str, pool: str, zone: str = ZONE) -> list[Object]:
    """The nodes of one slice, as a multi-host node pool has them; `v6e-16:spot` makes them Spot VMs."""
    found = resolve(accelerator)
    assert found.platform == "tpu", f"{accelerator} is no TPU"
    labels = {
        "cloud.google.com/gke-tpu-accelerator": str(found.gke_accelerator),
        "cloud.google.com/gke-tpu-topology": str(found.topology),
        "cloud.google.com/gke-accelerator-count": str(found.chips_per_host),
    }
    capacity_labels, capacity_taints = _of_capacity(found)
    return [
        _node(
            f"gke-tpu-{pool}-{host}",
            _labels(pool, str(found.machine_type), zone) | labels | capacity_labels,
            [TPU_TAINT, *capacity_taints],
            {"google.com/tpu": str(found.chips_per_host)},
        )
        for host in range(found.hosts)
    ]


def cpu_nodes(pool: str, count: int = 1, zone: str = ZONE) -> list[Object]:
    """Nodes without accelerators and without taints."""
    labels = _labels(pool, "e2-standard-8", zone)
    return [_node(f"gke-cpu-{pool}-{number}", labels, [], {}) for number in range(count)]


def _of_capacity(found: Slice) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Labels and taints by which GKE tells how a node was paid for."""
    prefix = "cloud.google.com/"
    kind, _, reservation = (found.capacity or "").partition("=")
    if kind == "spot":
        return {f"{prefix}gke-spot": "true", f"{prefix}gke-provisioning": "spot"}, [SPOT_TAINT]
    if kind == "flex-start":
        return {f"{prefix}gke-flex-start": "true", f"{prefix}gke-provisioning": "flex-start"}, []
    if kind == "queue":
        return {f"{prefix}gke-queued": "true"}, [QUEUED_TAINT]
    if reservation:
        return {f"{prefix}reservation-name": reservation, f"{prefix}gke-provisioning": "standard"}, []
    return {f"{prefix}gke-provisioning": "standard"}, []


def _labels(pool: str, machine: str, zone: str) -> dict[str, str]:
    return {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": machine,
        "topology.kubernetes.io/region": zone.rpartition("-")[0],
        "topology.kubernetes.io/zone": zone,
        "cloud.google.com/gke-nodepool": pool,
        "cloud.google.com/machine-family": machine.partition("-")[0],
    }


def _node(name: str, labels: dict[str, str], taints: list[dict[str, str]], chips: dict[str, str]) -> Object:
    resources: dict[str, Any] = {**ROOM, "ephemeral-storage": "100Gi", "pods": "110", **chips}
    zone = labels["topology.kubernetes.io/zone"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, "kubernetes.io/hostname": name}},
        "spec": {"taints": taints, "providerID": f"gce://project-of-tests/{zone}/{name}"},
        "status": {"capacity": resources, "allocatable": resources},
    }
