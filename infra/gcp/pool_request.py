"""Which node pool is asked for, so that its nodes are one slice, or one for each slice? Pure: the same for the same.

As the Container API's JSON says it. The facts are those of Google's own autoscaler and of xpk, read between 2026-06 and
2026-11, and of https://cloud.google.com/kubernetes-engine/docs/concepts/tpus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.gcp.google_api import SCOPE
from prefect_tpu.infra.gcp.placement import QUEUED
from prefect_tpu.infra.gcp.pool_names import taint_of

Json = dict[str, Any]

# Of nodes that are there for a while only: flex-start and queued.
# https://cloud.google.com/kubernetes-engine/docs/concepts/dws, as collected by 2026-11
LONGEST_RUN_SECONDS = 7 * 86_400
_RESERVATION = "compute.googleapis.com/reservation-name"
_PODS_PER_NODE = 15  # a host's own and the cluster's: each node takes addresses for as many, and slices have many nodes
_HYPERDISK = ("ct6e-", "tpu7x-", "tpu7-")  # machines that take no other disk
_WITH_POLICY = ("tpu7x", "tpu7")  # generations whose joined hosts are placed by a workload policy
_NETWORK_DRIVER = "cloud.google.com/gke-networking-dra-driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWish:
    """One pool, as it is wanted.

    shape: of each slice that it serves, with its capacity.
    nodes: how many hosts it has.
    zone: where they are.
    reservation: whose machines they are, with capacity `reserved`.
    service_account: whose rights the nodes have; None: the project's.
    run_seconds: for how long they are wanted at most; None where nobody knows.
    """

    name: str
    labels: Mapping[str, str]
    shape: Slice
    nodes: int
    zone: str
    capacity: str = ""
    reservation: str | None = None
    service_account: str | None = None
    run_seconds: float | None = None

    @property
    def is_joined(self) -> bool:
        return is_joined(self.shape)

    @property
    def begins_empty(self) -> bool:
        """Whether nodes come only once pods wait for them."""
        return self.capacity in ("flex-start", "queue")


def is_joined(shape: Slice) -> bool:
    """Whether the chips of several hosts are one: then a pool is one slice, whole or not at all."""
    return shape.platform == "tpu" and shape.hosts > 1


def workload_policy(shape: Slice) -> str | None:
    """The name of the workload policy that the slice's pool needs; it is made once for a region, by whoever sets it up.

    Google's autoscaler sends the topology with it, as is done here; xpk sends the policy alone.
    """
    return f"prefect-tpu-{shape.topology}" if is_joined(shape) and shape.generation in _WITH_POLICY else None


def how_to_make_policy(shape: Slice, zone: str) -> str:
    """The command by which it is made; empty where no policy is needed."""
    policy = workload_policy(shape)
    if policy is None:
        return ""
    return (
        f"It is placed by the workload policy {policy!r}; where that is not there: `gcloud beta compute"
        f" resource-policies create workload-policy {policy} --type=HIGH_THROUGHPUT"
        f" --accelerator-topology={shape.topology} --region={zone.rpartition('-')[0]}`."
    )


def cannot_be_made(name: str, shape: Slice, capacity: str, reservation: str | None) -> str | None:
    """Why there is no pool of such slices, as a sentence; None where there is one."""
    if shape.machine_type is None:
        return f"No node pool is made for {name}: it has no machine type. Leave make_pools out, or name a slice."
    if capacity == "reserved" and reservation is None:
        return f"A node pool for {name} needs the name of the reservation: {name}=NAME, or --pod reservation=NAME."
    if capacity in ("flex-start", "queue") and shape.generation in ("v3", "v4"):
        return f"Google has no {capacity} for {shape.generation}: ask for {name.partition(':')[0]} otherwise."
    return None


def node_pool(wish: PoolWish) -> Json:
    """What is asked for."""
    optional = {
        "placementPolicy": _placement(wish),
        "autoscaling": _autoscaling(wish),
        "queuedProvisioning": {"enabled": True} if wish.capacity == "queue" else {},
        "maxPodsConstraint": {"maxPodsPerNode": str(_PODS_PER_NODE)} if wish.is_joined else {},
        "networkConfig": {"acceleratorNetworkProfile": "auto"} if wish.shape.generation == "v6e" else {},
    }
    return {
        "name": wish.name,
        "initialNodeCount": 0 if wish.begins_empty else wish.nodes,
        "locations": [wish.zone],
        "config": _config(wish),
        # Upgrades are not forbidden, which a cluster of a release channel would not allow; a new pool is up to date.
        "management": {"autoUpgrade": True, "autoRepair": not wish.begins_empty},
        **{name: value for name, value in optional.items() if value},
    }


def _config(wish: PoolWish) -> Json:
    machine = str(wish.shape.machine_type)
    optional = {
        "serviceAccount": wish.service_account,
        "diskType": "hyperdisk-balanced" if machine.startswith(_HYPERDISK) else None,
        "spot": wish.capacity == "spot",
        "flexStart": wish.begins_empty,
        "maxRunDuration": f"{_run_seconds(wish)}s" if wish.begins_empty else None,
        "reservationAffinity": _reservation(wish),
        "accelerators": _gpus(wish.shape),
    }
    return {
        "machineType": machine,
        "labels": {**wish.labels, **_own_labels(wish)},
        "resourceLabels": dict(wish.labels),
        # Else whoever tolerates chips may run here, and is lost when the pool goes.
        "taints": [{**taint_of(wish.name), "effect": "NO_SCHEDULE"}],
        "oauthScopes": [SCOPE],  # what nodes may do, the roles of their service account say
        "gvnic": {"enabled": True},
        **{name: value for name, value in optional.items() if value},
    }


def _own_labels(wish: PoolWish) -> dict[str, str]:
    """Labels of nodes that Google does not set by itself, and others look for."""
    network = {_NETWORK_DRIVER: "true"} if wish.shape.generation == "v6e" else {}
    return {**network, **({QUEUED: "true"} if wish.capacity == "queue" else {})}


def _run_seconds(wish: PoolWish) -> int:
    return round(min(wish.run_seconds or LONGEST_RUN_SECONDS, LONGEST_RUN_SECONDS))


def _reservation(wish: PoolWish) -> Json:
    if wish.capacity == "reserved":
        name = str(wish.reservation)
        return {"consumeReservationType": "SPECIFIC_RESERVATION", "key": _RESERVATION, "values": [name]}
    return {"consumeReservationType": "NO_RESERVATION"} if wish.capacity in ("spot", "flex-start", "queue") else {}


def _gpus(shape: Slice) -> list[Json]:
    if shape.platform != "gpu":
        return []
    driver = {"gpuDriverVersion": "DEFAULT"}
    kind = {"acceleratorType": shape.gke_accelerator, "gpuDriverInstallationConfig": driver}
    return [{"acceleratorCount": str(shape.chips_per_host), **kind}]


def _placement(wish: PoolWish) -> Json:
    """Nothing for a slice of one host: Google refuses a topology there."""
    if not wish.is_joined:
        return {}
    policy = workload_policy(wish.shape)
    placed = {"policyName": policy} if policy else {"type": "COMPACT"}
    return {**placed, "tpuTopology": wish.shape.topology}


def _autoscaling(wish: PoolWish) -> Json:
    """In one zone, so that counts per zone are those of the pool."""
    if not wish.begins_empty:
        return {}
    return {"enabled": True, "minNodeCount": 0, "maxNodeCount": wish.nodes, "locationPolicy": "ANY"}
