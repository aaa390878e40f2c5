"""Which pods of an attempt are hosts, and which only work for them? By the replicated job that they are of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.gcp import names
from prefect_tpu.infra.plan import HostPlan

REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Helpers:
    """The pods that work for the hosts of an attempt: with Pathways the workers, which have the chips.

    job: the name of their replicated job; pods of any other one are hosts.
    slices, pods: how many Jobs of it there are, and how many pods in all of them.
    spare: how many slices the program goes on without; where there are any, Kubernetes replaces what is lost.
    """

    job: str
    slices: int
    pods: int
    spare: int = 0

    @property
    def pods_per_slice(self) -> int:
        return self.pods // self.slices

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether what has these labels is a helper, or a Job of helpers."""
        return labels.get(REPLICATED_JOB) == self.job


def helpers_of(plan: HostPlan) -> Helpers | None:
    if not plan.workers:
        return None
    return Helpers(job=names.WORKERS, slices=plan.slices, pods=plan.workers, spare=plan.elastic_slices)


def helpers_in(jobset: Object) -> Helpers | None:
    """The same of a JobSet whose plan nobody has at hand."""
    for replicated in jobset["spec"]["replicatedJobs"]:
        if replicated["name"] == names.WORKERS:
            slices, job = int(replicated.get("replicas", 1)), replicated["template"]["spec"]
            spare = slices if job.get("backoffLimit", 0) else 0
            return Helpers(job=names.WORKERS, slices=slices, pods=slices * int(job["completions"]), spare=spare)
    return None
