"""Which objects is an attempt with Pathways? One JobSet of two replicated jobs, as Google's tools make it.

Kubernetes restarts nothing of it: the head's end is the attempt's, and what a worker loses ends it. Only an elastic
job's workers are started again within an attempt, as often as the job allows.
"""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.gcp import lifetimes, manifests, names, ownership, placement
from prefect_tpu.infra.gcp.pathways_pods import head_template, of, worker_template
from prefect_tpu.infra.gcp.pod_plan import PodPlan

_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
Object = dict[str, Any]


def objects(plan: PodPlan, archive: bytes) -> tuple[Object, ...]:
    """Everything of an attempt, in the order in which it is created. `archive` is what the head's program runs in."""
    return manifests.config_map(archive, plan.pods.namespace), jobset(plan, names.archive_name(archive))


def jobset(plan: PodPlan, archive_name: str) -> Object:
    """The head, and a Job of workers per slice, which are made once the head runs: they call it at once."""
    made = manifests.jobset(plan, archive_name)
    annotations = {key: value for key, value in made["metadata"]["annotations"].items() if key != _EXCLUSIVE}
    head = {"name": names.HEAD, "replicas": 1, "template": _job(plan, 1, 0, head_template(plan, archive_name))}
    workers = {
        "name": names.WORKERS,
        "replicas": plan.hosts.slices,
        "template": _workers(plan),
        "dependsOn": [{"name": names.HEAD, "status": "Ready"}],
    }
    return {
        **made,
        "metadata": {**made["metadata"], "annotations": annotations},
        "spec": {
            **made["spec"],
            "coordinator": {"replicatedJob": names.HEAD, "jobIndex": 0, "podIndex": 0},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [names.HEAD]},
            "replicatedJobs": [head, workers],
        },
    }


def _workers(plan: PodPlan) -> Object:
    """Of one slice. Joined hosts have a node pool to themselves; the head's is shared with whoever fits."""
    settings, hosts = of(plan), plan.shape.hosts
    restarts = hosts * settings.slice_restarts if settings.elastic_slices else 0
    job = _job(plan, hosts, restarts, worker_template(plan))
    exclusive = {_EXCLUSIVE: placement.POOL} if plan.is_joined else {}
    return {**job, "metadata": {**job["metadata"], **({"annotations": exclusive} if exclusive else {})}}


def _job(plan: PodPlan, pods: int, restarts: int, template: Object) -> Object:
    hosts = plan.hosts
    return {
        "metadata": {"labels": ownership.attempt_labels(hosts)},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": restarts,
            "activeDeadlineSeconds": lifetimes.active_deadline(plan.provision_timeout, hosts.deadline, hosts.grace),
            "template": template,
        },
    }
