"""How does whatever is left of an attempt go from the cluster, and what is kept of it? Bounded, and safe to repeat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends import jobset_archive
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_reading import node_labels, read_node, read_pod
from prefect_tpu.infra.backends.jobset_sending import is_ours
from prefect_tpu.infra.backends.jobset_sources import pods_of
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.gcp.errors import Forbidden
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.pod_logs import LogQuery
from prefect_tpu.infra.gcp.resources import JOBSETS, NODES, PODS, Selection
from prefect_tpu.infra.storage import Storage, open_storage

logger = logging.getLogger(__name__)
Object = dict[str, Any]

GRACE_SECONDS = 1  # of hosts that still live when the attempt has its verdict: they had theirs before
FORCE_AFTER_SECONDS = 4.0  # then nobody is there to confirm their end, and Kubernetes forgets them without
GIVE_UP_AFTER_SECONDS = 20.0
LOOK_SECONDS = 0.2
LOG_SECONDS = 3.0  # for the log of one host; that of a lost one never comes
LARGEST_LOG_BYTES = 32 * 2**20


async def forget(cluster: Kubernetes, target: Target) -> None:
    """Keep the logs that are nowhere else, delete the JobSet, and wait until no pod of it is left."""
    pods = await pods_of(cluster, target)
    jobset = await cluster.find(JOBSETS, target.name, target.namespace)
    unheard = await _unheard(cluster, pods, jobset)
    await _keep_logs(cluster, target, [pod for pod in pods if pod["metadata"]["uid"] not in unheard])
    if jobset is not None and is_ours(jobset, target):
        uid = jobset["metadata"]["uid"]
        await jobset_archive.own_all(cluster, jobset)
        await cluster.delete(JOBSETS, target.name, target.namespace, uid=uid, propagation="Foreground")
    await _end_pods(cluster, target, unheard)


async def _unheard(cluster: Kubernetes, pods: Sequence[Object], jobset: Object | None) -> frozenset[str]:
    """The pods on nodes that nobody hears of, or that are gone: their end is confirmed by nobody, and logs are lost."""
    placed = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if _is_on_a_node(pod)}
    if not placed or jobset is None:
        return frozenset()
    selectors = {node_labels(jobset, replicated["name"]) for replicated in jobset["spec"]["replicatedJobs"]}
    try:
        found = [await cluster.list_all(Selection(resource=NODES, labels=labels)) for labels in sorted(selectors)]
    except Forbidden:  # then it takes as long as for pods that do not answer
        return frozenset()
    heard = {node["metadata"]["name"] for nodes in found for node in nodes if not read_node(node).is_lost}
    return frozenset(uid for uid, node in placed.items() if node not in heard)


def _is_on_a_node(pod: Object) -> bool:
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return bool(pod["spec"].get("nodeName")) and not is_over


async def _end_pods(cluster: Kubernetes, target: Target, unheard: frozenset[str]) -> None:
    clock = asyncio.get_running_loop().time
    began, told, forced = clock(), set[str](), set[str]()
    while pods := await pods_of(cluster, target):
        waited = clock() - began
        if waited > GIVE_UP_AFTER_SECONDS:
            names = ", ".join(pod["metadata"]["name"] for pod in pods)
            logger.warning("Pods %s were deleted and are still named by the cluster: look at their finalizers.", names)
            return
        await _delete(cluster, pods, told, GRACE_SECONDS)
        lost = [pod for pod in pods if waited > FORCE_AFTER_SECONDS or pod["metadata"]["uid"] in unheard]
        await _delete(cluster, lost, forced, 0)
        await asyncio.sleep(LOOK_SECONDS)


async def _delete(cluster: Kubernetes, pods: Sequence[Object], done: set[str], grace: int) -> None:
    """Each once: a second deletion with the same grace changes nothing."""
    for metadata in (pod["metadata"] for pod in pods):
        if metadata["uid"] not in done:
            done.add(metadata["uid"])
            await cluster.delete(PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace=grace)


async def _keep_logs(cluster: Kubernetes, target: Target, pods: Sequence[Object]) -> None:
    """A host that was killed left no log in the job's folder; its pod may still have one."""
    storage = open_storage(target.output)
    names = await asyncio.to_thread(storage.facts, layout.hosts(target.attempt))
    left = [(pod, read_pod(pod, target.hosts_per_slice, target.helpers)) for pod in pods]
    missing = [
        (pod, facts.host)
        for pod, facts in left
        if facts.has_begun and not facts.is_helper and layout.log(target.attempt, facts.host) not in names
    ]
    await asyncio.gather(*(_keep_log(cluster, storage, target.attempt, host, pod) for pod, host in missing))


async def _keep_log(cluster: Kubernetes, storage: Storage, attempt: int, host: int, pod: Object) -> None:
    metadata = pod["metadata"]
    try:
        async with asyncio.timeout(LOG_SECONDS):
            text = await _log(cluster, metadata["namespace"], metadata["name"])
        if text:
            await asyncio.to_thread(storage.put_if_absent, layout.log(attempt, host), text)
    except (TimeoutError, PlatformError) as exc:  # its node is gone, and its log with it
        logger.info("The log of pod %s is lost with its node: %s", metadata["name"], exc or "no answer in time")


async def _log(cluster: Kubernetes, namespace: str, pod: str) -> bytes:
    """As much of its beginning as is worth keeping."""
    kept = bytearray()
    lines = cluster.logs(namespace, pod, LogQuery())
    try:
        async for line in lines:
            kept += line.encode() + b"\n"
            if len(kept) > LARGEST_LOG_BYTES:
                break
    finally:
        await lines.aclose()
    return bytes(kept)
