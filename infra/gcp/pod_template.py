"""What is the pod of one host? All hosts of an attempt are made of one template."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.gcp import lifetimes, names, placement
from prefect_tpu.infra.gcp.machine_resources import room
from prefect_tpu.infra.gcp.ownership import attempt_labels
from prefect_tpu.infra.gcp.pod_plan import PodPlan
from prefect_tpu.infra.gcp.pod_volumes import FUSE_ANNOTATION, Folder, folders, reads_buckets

_CHIPS = {"tpu": placement.TPU, "gpu": placement.GPU}
_TPU_PORTS = (8471, 8431)  # libtpu's between hosts, and its metrics
_PROVISIONING = "autoscaling.x-k8s.io"
_STAYS = "cluster-autoscaler.kubernetes.io/safe-to-evict"  # else a node that seems idle may be emptied to save it
_JOB_INDEX = "jobset.sigs.k8s.io/job-index"  # a label of JobSet's: which slice the pod belongs to


def pod_template(plan: PodPlan, archive_name: str) -> dict[str, Any]:
    """The template of the Jobs' pods: metadata and specification."""
    labels = {**plan.pods.labels, **attempt_labels(plan.hosts)}
    metadata = {"labels": labels, "annotations": _annotations(plan)}
    return {"metadata": metadata, "spec": _spec(plan, folders(plan.pods, archive_name))}


def _annotations(plan: PodPlan) -> dict[str, str]:
    found = {_STAYS: "false", **plan.pods.annotations}
    if reads_buckets(plan.pods):
        found |= FUSE_ANNOTATION
    if request := plan.pods.provisioning_request:
        found |= {
            f"{_PROVISIONING}/consume-provisioning-request": request,
            f"{_PROVISIONING}/provisioning-class-name": "queued-provisioning.gke.io",
        }
    return found


def _spec(plan: PodPlan, seen: tuple[Folder, ...]) -> dict[str, Any]:
    pods = plan.pods
    optional = {
        "priorityClassName": pods.priority_class,
        "serviceAccountName": pods.service_account,
        "imagePullSecrets": [{"name": name} for name in pods.pull_secrets],
        "nodeSelector": placement.node_selector(plan),
        "tolerations": placement.tolerations(plan),
        "affinity": placement.affinity(plan),
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": lifetimes.pod_grace(plan.hosts.grace, plan.capacity),
        # Google's libraries ask the metadata server, and JAX must not ask this cluster who its hosts are.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # else every service of the namespace is in the program's environment
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        **{name: value for name, value in optional.items() if value},
        "containers": [_container(plan, seen)],
        "volumes": [folder.volume for folder in seen],
    }


def _container(plan: PodPlan, seen: tuple[Folder, ...]) -> dict[str, Any]:
    own = (names.COORDINATOR_PORT, *((names.REGIONS_PORT,) if plan.hosts.regions else ()))
    ports = (*own, *(_TPU_PORTS if plan.shape.platform == "tpu" else ()))
    return {
        "name": names.CONTAINER,
        "image": plan.pods.image,
        "command": names.command(plan.pods.python, plan.plan_url),
        "env": _environment(plan),
        "ports": [{"containerPort": port} for port in ports],
        **resources(plan),
        "securityContext": security(plan.shape.platform),
        "volumeMounts": [folder.mount for folder in seen],
        "terminationMessagePath": names.TERMINATION_MESSAGE,
        # Where the runner cannot even start, its last words stand in for the record.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _environment(plan: PodPlan) -> list[dict[str, Any]]:
    """Which host it is, and secrets by their names.

    Everything else is in the plan. The runner sets TPU_*, MEGASCALE_* and the coordinator for the program itself, over
    whatever GKE puts here: after a preemption GKE was seen to count pods that were still leaving as a slice.
    """
    return [
        {"name": Env.ATTEMPT, "value": f"{plan.hosts.output}/{plan.hosts.attempt}"},
        {"name": Env.SLICE, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{_JOB_INDEX}']"}}},
        *({"name": name, "valueFrom": _secret(place)} for name, place in plan.pods.secrets.items()),
    ]


def _secret(place: str) -> dict[str, Any]:
    name, _, key = place.partition("/")
    return {"secretKeyRef": {"name": name, "key": key}}


def resources(plan: PodPlan) -> dict[str, Any]:
    """Chips, and of the machine what was asked for, else what is known to be free of it.

    A queue admits only resources that it has a quota of, and most have one of chips alone: there nothing is asked for
    that nobody named. CPUs are never limited: a program that is throttled holds up all hosts.
    """
    pods, known = plan.pods, {} if plan.pods.queue else room(plan.shape.machine_type)
    named = {"cpu": pods.cpu, "memory": pods.memory, "ephemeral-storage": pods.ephemeral_storage}
    asked = {name: quantity for name, quantity in named.items() if quantity is not None}
    chips = {_CHIPS[plan.shape.platform]: str(plan.shape.chips_per_host)} if plan.shape.platform in _CHIPS else {}
    requests = {**known, **asked, **chips}
    limits = {**{name: quantity for name, quantity in asked.items() if name != "cpu"}, **chips}
    found = {"requests": requests, "limits": limits}
    return {"resources": {kind: amounts for kind, amounts in found.items() if amounts}} if requests else {}


def security(platform: str) -> dict[str, Any]:
    """No more rights than a container has by default; on a TPU also to lock memory, which its driver needs.

    https://cloud.google.com/kubernetes-engine/docs/how-to/tpus#privileged-mode, read 2026-11-28
    """
    rights = {"capabilities": {"add": ["SYS_RESOURCE"]}} if platform == "tpu" else {}
    return {"allowPrivilegeEscalation": False, **rights}
