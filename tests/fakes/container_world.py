"""What has a test said of Google: where there is no capacity, what quota is left, who may do what, how slow it is?"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from container_errors import Refused, denied
from container_machines import find
from container_nodes import capacity_kind
from google.cloud.container_v1 import NodePool

# What each method of the API asks for. Those of node pools are of the cluster.
PERMISSIONS = {
    "clusters.get": "container.clusters.get",
    "clusters.list": "container.clusters.list",
    "nodePools.get": "container.clusters.get",
    "nodePools.list": "container.clusters.get",
    "nodePools.create": "container.clusters.update",
    "nodePools.update": "container.clusters.update",
    "nodePools.setSize": "container.clusters.update",
    "nodePools.setAutoscaling": "container.clusters.update",
    "nodePools.delete": "container.clusters.update",
    "operations.get": "container.operations.get",
    "operations.list": "container.operations.list",
}


@dataclass(kw_only=True)
class Delays:
    """Seconds. pending: before an operation runs. making, deleting, resizing: how long it runs. nodes: until they are
    there once the pool runs. repair: until what was taken back is tried again. patience: how long for."""

    pending: float = 0.02
    making: float = 0.1
    deleting: float = 0.1
    resizing: float = 0.1
    nodes: float = 0.05
    repair: float = 0.1
    patience: float = 2.0


@dataclass(kw_only=True)
class Dry:
    """No capacity for pools of this zone, machine type and kind; None means any.

    until: monotonic seconds of its end. after: how many such pools there is capacity for before. times: how many
    pools find none before there is some again.
    """

    zone: str | None = None
    machine: str | None = None
    capacity: str | None = None
    until: float | None = None
    after: int = 0
    times: int | None = None

    def covers(self, pool: NodePool) -> bool:
        is_zone = self.zone is None or self.zone in pool.locations
        is_machine = self.machine is None or self.machine == pool.config.machine_type
        return is_zone and is_machine and self.capacity in (None, capacity_kind(pool))

    def strikes(self) -> bool:
        """Ask once per pool that it covers: it counts."""
        if self.until is not None and time.monotonic() >= self.until:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
            return self.times >= 0
        return True


@dataclass(kw_only=True)
class Failure:
    """How an operation ends that does not end well, and what its pool says of it afterwards.

    code: the name of a google.rpc.Code. condition: of StatusCondition.Code.
    """

    code: str
    condition: str
    message: str


@dataclass(kw_only=True)
class World:
    """All of it; a test changes it while the fake runs.

    chips: machine family (`ct6e`) or `*` → how many chips may be in use at once. is_quota_early: whether a lack of
    quota is the answer to the request, rather than the operation's end.
    denied: permissions that nobody has. accounts: service accounts of nodes that nobody may use.
    writes_per_second: more of them are refused. policies: workload policy → topology.
    reservations: those that exist; None lets every one exist.
    failures: machine type or `*` → how the next operations that make pools of it fail, first come first served.
    """

    delays: Delays = field(default_factory=Delays)
    dry: list[Dry] = field(default_factory=list)
    chips: dict[str, int] = field(default_factory=dict)
    is_quota_early: bool = False
    denied: set[str] = field(default_factory=set)
    accounts: set[str] = field(default_factory=set)
    writes_per_second: int | None = None
    policies: dict[str, str] = field(default_factory=dict)
    reservations: set[str] | None = None
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    _writes: list[float] = field(default_factory=list)

    def check(self, called: str, resource: str) -> None:
        """Refuses a request that nobody may make, or that comes too soon after others."""
        permission = PERMISSIONS[called]
        if permission in self.denied:
            is_of_project = called.startswith("operations.")
            raise denied(permission, resource.partition("/locations/" if is_of_project else "/nodePools/")[0])
        if permission != "container.clusters.update" or self.writes_per_second is None:
            return
        now = time.monotonic()
        self._writes = [at for at in self._writes if at > now - 1]
        if len(self._writes) >= self.writes_per_second:
            said = "Quota exceeded for quota metric 'Write requests' and limit 'Write requests per second'"
            raise Refused("RESOURCE_EXHAUSTED", f"{said} of service 'container.googleapis.com'.")
        self._writes.append(now)

    def lack(self, pool: NodePool, project: str) -> Failure | None:
        """Why no machines can be had for this pool, asked once per try."""
        given = self.failures.get(pool.config.machine_type) or self.failures.get("*")
        if given:
            return given.pop(0)
        if not any([dry.strikes() for dry in self.dry if dry.covers(pool)]):
            return None
        said = (
            f"Google Compute Engine: Not all instances running in IGM after 35m4.2s. Expected {wanted(pool)}, running"
            f" 0, transitioning {wanted(pool)}. Current errors: [GCE_STOCKOUT]: Instance 'gke-tpu-0' creation failed:"
            f" The zone 'projects/{project}/zones/{pool.locations[0]}' does not have enough resources available to"
            " fulfill the request. '(resource type:compute)'."
        )
        return Failure(code="RESOURCE_EXHAUSTED", condition="GCE_STOCKOUT", message=said)

    def missing_quota(self, pool: NodePool, others: list[NodePool]) -> Failure | None:
        """Why the project may not have so many chips more."""
        family, asked = chips_of(pool)
        limit = self.chips.get(family, self.chips.get("*"))
        used = Counter[str]()
        for other in others:
            name, count = chips_of(other)
            used[name] += count
        if limit is None or used[family] + asked <= limit:
            return None
        region = pool.locations[0].rpartition("-")[0]
        said = f"Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: {float(limit)} in region {region}."
        if self.is_quota_early:
            left = limit - used[family]
            said = (
                f'Insufficient regional quota to satisfy request: resource "TPUS_PER_TPU_FAMILY": request requires'
                f" '{float(asked)}' and is short '{float(asked - left)}'. project has a quota of '{float(limit)}' with"
                f" '{float(left)}' available."
            )
        return Failure(code="RESOURCE_EXHAUSTED", condition="GCE_QUOTA_EXCEEDED", message=said)


def wanted(pool: NodePool) -> int:
    """How many nodes the pool has when it is as it was asked for."""
    return int(pool.initial_node_count) * max(1, len(pool.locations))


def chips_of(pool: NodePool) -> tuple[str, int]:
    """The machine family and the chips of all nodes that the pool may have."""
    machine = find(pool.config.machine_type)
    assert machine is not None
    count = max(wanted(pool), int(pool.autoscaling.max_node_count))
    return machine.family, machine.chips * count
