"""How do the objects of an attempt come to be in the cluster exactly once, and how do they go again?

Everything may be repeated and cut short anywhere. The ConfigMap with what hosts run is shared by all attempts of the
namespace; each JobSet becomes one of its owners, so Kubernetes deletes it with the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect_tpu.infra.backends import jobset_archive
from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_reading import QUEUE, is_workload_of, read_jobset
from prefect_tpu.infra.errors import FailureKind, PlatformError
from prefect_tpu.infra.gcp import errors
from prefect_tpu.infra.gcp.adoption import other_owner
from prefect_tpu.infra.gcp.errors import Conflict, NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.ownership import IDENTITY, MANAGED_BY, OURS, OUTPUT, PLAN, TOLD_TO_STOP
from prefect_tpu.infra.gcp.resources import JOBSETS, WORKLOADS, Selection
from prefect_tpu.infra.state import WaitFor, Waiting

Object = dict[str, Any]
_ATTEMPT = tuple(label for label in IDENTITY if label != PLAN)
OWNING_TRIES = 3  # each fails only where Kubernetes deletes the ConfigMap's last owner at this very moment


async def objection(cluster: Kubernetes, jobset: Object) -> Waiting | Refused | None:
    """What the cluster has against a JobSet: for now, where a quota is used up, or for good. None where nothing.

    It is tried and not made, so that no attempt begins that nobody lets in; what is there already was let in.
    """
    metadata = jobset["metadata"]
    try:
        await cluster.dry_run(jobset)
    except Conflict:
        return await _of_another(cluster, jobset)
    except errors.Refused as exc:
        if await cluster.find(JOBSETS, metadata["name"], metadata["namespace"]) is not None:
            return None
        if exc.is_quota:
            said = f"a quota of namespace {metadata['namespace']!r} allows no JobSet now: {exc.said}"
            return Waiting(reason=said, kind=FailureKind.NO_QUOTA, what=WaitFor.QUOTA)
        said = f"the cluster does not take JobSet {metadata['name']!r}: {exc.said}"
        return Refused(reason=said, is_barred=True)
    return None


async def _of_another(cluster: Kubernetes, jobset: Object) -> Refused | None:
    """Somebody else's JobSet of this name: known before a node pool is made, for which there would be no JobSet.

    Of the same attempt it may be of another plan: where it starts from is chosen only when it is sent.
    """
    metadata = jobset["metadata"]
    found = await cluster.find(JOBSETS, metadata["name"], metadata["namespace"])
    owner = None if found is None else other_owner(jobset, found, _ATTEMPT)
    if owner is None:
        return None
    where = f"namespace {metadata['namespace']!r} of cluster {cluster.cluster}"
    said = f"JobSet {metadata['name']!r} in {where} exists and belongs to {owner}: choose another name, or delete it."
    return Refused(reason=said, is_barred=True)


async def send(cluster: Kubernetes, objects: Sequence[Object]) -> None:
    """Create the ConfigMap and then the JobSet, or adopt what is there."""
    archive, jobset = objects
    await jobset_archive.ensure(cluster, archive)
    made = await cluster.create_or_adopt(jobset, IDENTITY)
    for _ in range(OWNING_TRIES):
        if await jobset_archive.own(cluster, archive["metadata"]["name"], made):
            return
        await jobset_archive.ensure(cluster, archive)
    name = archive["metadata"]["name"]
    raise PlatformError(f"ConfigMap {name!r} is deleted as often as it is made: see who deletes it, and run again.")


async def tell_to_stop(cluster: Kubernetes, target: Target) -> None:
    """Have every pod told to leave, with its grace, and none begun: the JobSet is suspended and stays, as does its DNS.

    Kueue would resume what it has admitted, so there its Workload is deactivated first.
    """
    found = await cluster.find(JOBSETS, target.name, target.namespace)
    if found is None or not is_ours(found, target) or read_jobset(found).has_ended:
        return
    for workload in await _workloads(cluster, target, found):
        await _patch(cluster, WORKLOADS, workload["metadata"]["name"], target, {"spec": {"active": False}})
    change = {"metadata": {"annotations": {TOLD_TO_STOP: "true"}}, "spec": {"suspend": True}}
    await _patch(cluster, JOBSETS, target.name, target, change)


async def _patch(cluster: Kubernetes, resource: Any, name: str, target: Target, change: Object) -> None:
    try:
        await cluster.patch(resource, name, target.namespace, change)
    except NotFound:
        return  # it ended meanwhile


async def _workloads(cluster: Kubernetes, target: Target, jobset: Object) -> list[Object]:
    """What Kueue keeps for this JobSet; nothing where the JobSet is in no queue, or there is no Kueue."""
    if QUEUE not in (jobset["metadata"].get("labels") or {}):
        return []
    try:
        found = await cluster.list_all(Selection(resource=WORKLOADS, namespace=target.namespace))
    except NotFound:
        return []
    return [workload for workload in found if is_workload_of(workload, jobset["metadata"]["uid"])]


async def is_live(cluster: Kubernetes, name: str, namespace: str, output: str) -> bool:
    """Whether a JobSet of the job in this folder is there and has not ended."""
    found = await cluster.find(JOBSETS, name, namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return False
    is_same = (found["metadata"].get("annotations") or {}).get(OUTPUT) == output
    return is_same and not read_jobset(found).has_ended


def is_ours(jobset: Object, target: Target) -> bool:
    """Whether a JobSet of this name is this attempt's: another output may have a job of the same name."""
    labels = jobset["metadata"].get("labels") or {}
    wanted = dict(part.split("=", 1) for part in target.selector.split(","))
    return labels.get(MANAGED_BY) == OURS and all(labels.get(name) == value for name, value in wanted.items())
