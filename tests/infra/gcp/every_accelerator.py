"""Every accelerator of the curated table, however it is paid for: the pool that is asked for, its nodes, its pods."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import container_nodes
from container_rules import doom, refusal
from container_world import World
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra.accelerator_table import GENERATIONS
from prefect_tpu.infra.accelerators import Slice, curated_names, resolve
from prefect_tpu.infra.gcp import manifests, pool_names
from prefect_tpu.infra.gcp.pod_plan import PodPlan
from prefect_tpu.infra.gcp.pool_request import PoolWish, cannot_be_made, node_pool, workload_policy
from tests.infra.gcp.golden_plans import Golden, pod_plan

CAPACITIES = ("", "spot", "reserved=block-a", "flex-start", "queue")
PROJECT, CLUSTER, ZONE = "project-of-tests", "tests", "us-east5-b"
ZONES = ("us-east5-a", "us-east5-b", "us-east5-c")
_PLAN = pod_plan(Golden(accelerator="cpu"))  # all but the accelerator is the same for all


@dataclass(frozen=True)
class Wanted:
    """One slice of an accelerator for a job, in a pool of its own."""

    accelerator: str
    job: str = "digits"

    @cached_property
    def shape(self) -> Slice:
        return resolve(self.accelerator)

    @cached_property
    def wish(self) -> PoolWish:
        tried = pool_names.Try(
            job=self.job, attempt=1, output=f"gs://bucket/jobs/{self.job}", accelerator=self.accelerator, zone=ZONE
        )
        return PoolWish(
            name=tried.name(0),
            labels=tried.labels(1_790_000_000.0, 1_790_086_400.0),
            shape=self.shape,
            nodes=self.shape.hosts,
            zone=ZONE,
            capacity=self.capacity,
            reservation="block-a" if self.capacity == "reserved" else None,
            service_account="nodes@project-of-tests.iam.gserviceaccount.com",
            run_seconds=3600.0,
        )

    @property
    def capacity(self) -> str:
        return (self.shape.capacity or "").partition("=")[0]

    @cached_property
    def pool(self) -> NodePool:
        """As Google understands what is asked for."""
        return NodePool.from_json(json.dumps(node_pool(self.wish)), ignore_unknown_fields=False)

    @property
    def impossible(self) -> str | None:
        """Why we do not even ask for it."""
        return cannot_be_made(self.accelerator, self.shape, self.capacity, self.wish.reservation)

    @property
    def refusal(self) -> str | None:
        """What Google says to it at once or at the end, in a project that has what it needs."""
        policy = workload_policy(self.shape)
        policies = {policy: str(self.shape.topology)} if policy else {}
        end = doom(self.pool)
        return refusal(self.pool, ZONES, World(policies=policies, reservations={"block-a"})) or (end and end.message)

    @cached_property
    def node(self) -> dict[str, Any]:
        """One of those that Google makes."""
        return container_nodes.nodes(self.pool, PROJECT, CLUSTER, 1)[0]

    @cached_property
    def plan(self) -> PodPlan:
        own = {"accelerator": self.accelerator, "hosts": self.shape.hosts, "zone": ZONE, "pools": (self.wish.name,)}
        return replace(_PLAN, shape=self.shape, hosts=replace(_PLAN.hosts, job=self.job, **own))

    @cached_property
    def jobset(self) -> dict[str, Any]:
        return manifests.jobset(self.plan, "prefect-tpu-archive")

    @property
    def pod(self) -> dict[str, Any]:
        """What each host's pod is made of."""
        template: dict[str, Any] = self.slice["template"]
        return template

    @property
    def slice(self) -> dict[str, Any]:
        """What each slice's Job is made of."""
        found: dict[str, Any] = self.jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
        return found


def names() -> tuple[str, ...]:
    """The curated names, and the machines that are asked for by name."""
    machines = [
        f"{generation.name}-2x4@{machine.name}"
        for generation in GENERATIONS.values()
        for machine in generation.machines
        if machine.name and (2, 4) in generation.fixed and machine.makes((2, 4)) and machine.joins
    ]
    return (*curated_names(), *machines)


@cache
def wanted(capacity: str) -> tuple[Wanted, ...]:
    """Every slice that can be had in this way."""
    all_of_them = (Wanted(f"{name}:{capacity}" if capacity and name != "cpu" else name) for name in names())
    return tuple(one for one in all_of_them if one.shape.machine_type and not one.impossible)
