"""Which objects is an attempt in a cluster? One JobSet, and the ConfigMap with what its hosts run.

Pure functions of the plan: the same plan gives the same bytes. Kubernetes never restarts anything of it: a pod that
failed stays as evidence, and another attempt is another JobSet.
"""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.gcp import lifetimes, names, ownership, placement
from prefect_tpu.infra.gcp.pod_plan import PodPlan
from prefect_tpu.infra.gcp.pod_template import pod_template

_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_QUEUE = "kueue.x-k8s.io/queue-name"


def objects(plan: PodPlan, archive: bytes) -> tuple[dict[str, Any], ...]:
    """Everything of an attempt, in the order in which it is created. `archive` is what its hosts run."""
    return config_map(archive, plan.pods.namespace), jobset(plan, names.archive_name(archive))


def config_map(archive: bytes, namespace: str) -> dict[str, Any]:
    """What hosts run; it never changes, and all jobs of the namespace share it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.archive_name(archive),
            "namespace": namespace,
            "labels": ownership.archive_labels(archive),
        },
        "immutable": True,
        "binaryData": {names.ARCHIVE_FILE: _encoded(archive)},
    }


def jobset(plan: PodPlan, archive_name: str) -> dict[str, Any]:
    """All hosts of an attempt: a Job per slice, a pod per host."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": layout.attempt_name(plan.hosts.job, plan.hosts.attempt),
            "namespace": plan.pods.namespace,
            "labels": _labels(plan),
            "annotations": _annotations(plan),
        },
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": plan.pods.ttl,
            "replicatedJobs": [
                {"name": names.SLICES, "replicas": plan.hosts.slices, "template": _job(plan, archive_name)}
            ],
        },
    }


@cache
def _encoded(archive: bytes) -> str:
    """Half a megabyte, which all jobs of a process have in common."""
    return base64.b64encode(archive).decode()


def _labels(plan: PodPlan) -> dict[str, str]:
    queue = {_QUEUE: plan.pods.queue} if plan.pods.queue else {}  # a label: Kueue reads no annotation
    lifetime = str(lifetimes.lifetime(_active_deadline(plan), plan.pods.ttl))
    return {**plan.pods.labels, **queue, **ownership.attempt_labels(plan.hosts), ownership.LIFETIME: lifetime}


def _annotations(plan: PodPlan) -> dict[str, str]:
    """For people; and that hosts whose chips are joined get a node pool to themselves.

    A slice of one host needs no such thing: its pod fills its node, and a pool of such nodes is many slices.
    """
    exclusive = {_EXCLUSIVE: placement.POOL} if plan.is_joined else {}
    known = {ownership.OUTPUT: plan.hosts.output, ownership.ACCELERATOR: plan.hosts.accelerator}
    return {**plan.pods.annotations, **known, **exclusive}


def _job(plan: PodPlan, archive_name: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": ownership.attempt_labels(plan.hosts)},
        "spec": {
            "completionMode": "Indexed",
            "completions": plan.shape.hosts,
            "parallelism": plan.shape.hosts,
            "backoffLimit": 0,
            "activeDeadlineSeconds": _active_deadline(plan),
            "template": pod_template(plan, archive_name),
        },
    }


def _active_deadline(plan: PodPlan) -> int:
    return lifetimes.active_deadline(plan.provision_timeout, plan.hosts.deadline, plan.hosts.grace)
