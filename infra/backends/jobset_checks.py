"""Can this cluster run such a job at all? What is asked before an attempt is sent, and told where it cannot."""

from __future__ import annotations

import asyncio
import time

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.backends.jobset_access import denied_permissions
from prefect_tpu.infra.gcp.errors import Forbidden, NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.permissions import DRIVING, QUEUEING
from prefect_tpu.infra.gcp.resources import JOBSETS, LOCAL_QUEUES, NAMESPACES, SERVICE_ACCOUNTS, Resource
from prefect_tpu.infra.gcp.sharing import shared
from prefect_tpu.infra.pods import PodSettings

GOOD_SECONDS = 60.0  # a cluster that could run such jobs most likely can so soon after
MOST_LISTED = 4  # of permissions that are missing; whoever has none of them needs no list
INSTALL_JOBSET = "https://jobset.sigs.k8s.io/docs/installation/"


def unknown_to_gke(name: str, shape: Slice) -> str | None:
    """Why GKE has no nodes of this accelerator; None where it has."""
    if shape.platform != "cpu" and shape.gke_accelerator is None:
        return f"GKE has no nodes of {name}: name another accelerator."
    return None


async def refusal(cluster: Kubernetes, pods: PodSettings) -> str | None:
    """What is missing, all of it in one sentence; None where nothing is. Many jobs of one process ask together."""
    if (together := shared()) is None:
        return await _refusal(cluster, pods)
    key = ("can run jobs", cluster.cluster, pods.namespace, pods.queue, pods.service_account)

    async def ask() -> _Answer:
        return _Answer(await _refusal(cluster, pods))

    return (await together.get(key, ask)).refusal


class _Answer:
    """What was found; good for others as long as nothing was missing, and not for long."""

    def __init__(self, refusal: str | None) -> None:
        self.refusal = refusal
        self._at = time.monotonic()

    @property
    def is_over(self) -> bool:
        return self.refusal is not None or time.monotonic() - self._at > GOOD_SECONDS

    async def close(self) -> None:
        """Nothing is open."""


async def _refusal(cluster: Kubernetes, pods: PodSettings) -> str | None:
    if (missing := await missing_namespace(cluster, pods.namespace)) is not None:
        return missing
    rules = DRIVING + (QUEUEING if pods.queue else ())
    denied = await asyncio.gather(*(denied_permissions(cluster, rule, pods.namespace) for rule in rules))
    if listed := [str(permission) for missing in denied for permission in missing]:
        more = f" and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
        return (
            f"No permission in namespace {pods.namespace!r} of cluster {cluster.cluster} to"
            f" {', '.join(listed[:MOST_LISTED])}{more}: name another namespace, or ask whoever administers the cluster"
            " for a role with these verbs (`prefect-tpu doctor` lists them)."
        )
    return await _missing_objects(cluster, pods)


async def missing_namespace(cluster: Kubernetes, namespace: str) -> str | None:
    """Why nothing can be made there; None where something can."""
    try:
        found = await cluster.find(NAMESPACES, namespace)
    except Forbidden:  # namespaces may be used without the right to look at them
        return None
    if found is not None and (found.get("status") or {}).get("phase") == "Terminating":
        return f"Namespace {namespace!r} of cluster {cluster.cluster} is being deleted: name another one."
    if found is not None:
        return None
    return f"Namespace {namespace!r} is not in cluster {cluster.cluster}: `kubectl create namespace {namespace}`."


async def _missing_objects(cluster: Kubernetes, pods: PodSettings) -> str | None:
    """The JobSet API, and the named objects that would keep the pods from being made."""
    try:
        await cluster.find(JOBSETS, "prefect-tpu", pods.namespace)
    except NotFound:
        return f"Cluster {cluster.cluster} does not know JobSet: install it ({INSTALL_JOBSET})."
    for resource, name in ((SERVICE_ACCOUNTS, pods.service_account), (LOCAL_QUEUES, pods.queue)):
        if name is not None and (why := await _missing(cluster, resource, name, pods.namespace)):
            return why
    return None


async def _missing(cluster: Kubernetes, resource: Resource, name: str, namespace: str) -> str | None:
    try:
        found = await cluster.find(resource, name, namespace)
    except Forbidden:
        return None
    except NotFound:
        return f"Cluster {cluster.cluster} does not know {resource.full_name}: install Kueue, or name no queue."
    if found is None:
        return f"{resource.kind} {name!r} is not in namespace {namespace!r} of cluster {cluster.cluster}: make it."
    return None
