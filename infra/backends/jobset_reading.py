"""Where in an object of Kubernetes does it stand? Raw objects → the facts of an attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from prefect_tpu.infra.backends.jobset_facts import (
    ContainerFacts,
    EventFacts,
    JobFacts,
    JobSetFacts,
    NodeFacts,
    PodFacts,
    Said,
    WorkloadFacts,
)
from prefect_tpu.infra.backends.jobset_roles import Helpers
from prefect_tpu.infra.gcp.ownership import ATTEMPT, JOB, MANAGED_BY, OURS, TOLD_TO_STOP
from prefect_tpu.infra.gcp.placement import GPU, POOL, SPOT, TPU
from prefect_tpu.infra.gcp.resources import with_labels

Object = Mapping[str, Any]

JOB_INDEX = "jobset.sigs.k8s.io/job-index"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
QUEUE = "kueue.x-k8s.io/queue-name"
WORKLOAD_OF = "kueue.x-k8s.io/job-uid"  # label of a Workload: of what object it is
_ACTIVE_MAINTENANCE = "cloud.google.com/active-node-maintenance"
_IMPENDING_END = "cloud.google.com/impending-node-termination"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_BEHIND_OTHERS = "PodInitializing"
_MOST_RESTARTS = 3  # of a container beside the others: less may be a fault that passes
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_CHIPS = frozenset({TPU, GPU})
_PLACED_BY_TAINT = frozenset({"NoSchedule", "NoExecute"})
_OF_EVERY_SLICE = tuple({"key": key, "operator": "Exists"} for key in (TPU, GPU, SPOT))  # taints of nodes that are well


def read_jobset(found: Object) -> JobSetFacts:
    metadata, conditions = found["metadata"], _conditions(found)
    return JobSetFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        is_suspended=bool(found["spec"].get("suspend")),
        is_deleting="deletionTimestamp" in metadata,
        is_told_to_stop=TOLD_TO_STOP in (metadata.get("annotations") or {}),
        is_complete="Completed" in conditions,
        failed=conditions.get("Failed"),
        queue=(metadata.get("labels") or {}).get(QUEUE),
    )


def read_job(found: Object, helpers: Helpers | None = None) -> JobFacts:
    metadata, conditions = found["metadata"], _conditions(found)
    labels = metadata.get("labels") or {}
    return JobFacts(
        name=metadata["name"],
        slice=int(labels.get(JOB_INDEX, 0)),
        is_helper=helpers is not None and helpers.has(labels),
        is_deleting="deletionTimestamp" in metadata,
        failed=conditions.get("Failed") or conditions.get("FailureTarget"),
        is_complete="Complete" in conditions or "SuccessCriteriaMet" in conditions,
    )


def read_pod(found: Object, hosts_per_slice: int, helpers: Helpers | None = None, *, is_gone: bool = False) -> PodFacts:
    metadata, status = found["metadata"], found.get("status") or {}
    labels, conditions = metadata.get("labels") or {}, _conditions(found)
    index, is_helper = int(labels.get(JOB_INDEX, 0)), helpers is not None and helpers.has(labels)
    per_slice = helpers.pods_per_slice if helpers and is_helper else hosts_per_slice
    placed: Object = next((c for c in _raw_conditions(found) if c["type"] == "PodScheduled"), {})
    selector = found["spec"].get("nodeSelector") or {}
    return PodFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        host=index * per_slice + int(labels.get(COMPLETION_INDEX, 0)),
        slice=index,
        is_helper=is_helper,
        phase=status.get("phase", "Pending"),
        created_at=read_time(metadata.get("creationTimestamp")) or 0.0,
        node=found["spec"].get("nodeName") or "",
        is_spot=selector.get(SPOT) == "true",
        is_gone=is_gone,
        deleted_at=_deletion_asked(metadata),
        disruption=conditions.get("DisruptionTarget"),
        unschedulable=placed.get("message", "") if placed.get("status") == "False" else "",
        evicted=Said(reason=status["reason"], message=status.get("message", "")) if status.get("reason") else None,
        unsteady=_read_unsteady(found["spec"], status) if helpers else None,
        container=_read_container(status),
    )


def read_node(found: Object, tolerations: Iterable[Object] = ()) -> NodeFacts:
    """tolerations: of the pods that may be placed on it, beside those of whoever wants chips."""
    metadata, spec = found["metadata"], found.get("spec") or {}
    labels = metadata.get("labels") or {}
    taints: dict[str, Object] = {taint["key"]: taint for taint in spec.get("taints") or ()}
    ready = next((c["status"] for c in _raw_conditions(found) if c["type"] == "Ready"), "True")
    is_lost = ready == "Unknown" or _UNREACHABLE in taints  # one that is not ready still says how its pods end
    tolerated = (*_OF_EVERY_SLICE, *tolerations)
    is_closed = any(_closes(taint, tolerated) for taint in spec.get("taints") or ())
    return NodeFacts(
        name=metadata["name"],
        pool=labels.get(POOL, ""),
        is_lost=is_lost,
        is_serviced=_ACTIVE_MAINTENANCE in labels or _IMPENDING_END in taints,
        is_open=not (ready != "True" or is_closed or spec.get("unschedulable")),
        is_spot=labels.get(SPOT) == "true",
    )


def _closes(taint: Object, tolerations: Iterable[Object]) -> bool:
    """Whether it keeps pods with these tolerations from being placed."""
    return taint.get("effect") in _PLACED_BY_TAINT and not any(_tolerates(one, taint) for one in tolerations)


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    is_any = toleration.get("operator") == "Exists"
    if toleration.get("key") != taint["key"]:
        return is_any and not toleration.get("key")
    return is_any or toleration.get("value", "") == taint.get("value", "")


def node_labels(jobset: Object, job: str = "") -> str:
    """A selector of the nodes on which the pods of a JobSet may be placed; all of them where it says nothing.

    job: of which replicated job; by default the first, which is that of hosts.
    """
    selected = _pod_of(jobset, job).get("nodeSelector") or {}
    return with_labels(dict(sorted(selected.items())))


def read_nodes(found: Iterable[Object], jobset: Object, job: str = "") -> dict[str, NodeFacts]:
    """Those on which the pods of a JobSet may be placed, by name."""
    pod = _pod_of(jobset, job)
    tolerations = pod.get("tolerations") or ()
    kept = (node for node in found if not _is_kept_from(node, pod))
    return {node["metadata"]["name"]: read_node(node, tolerations) for node in kept}


def _is_kept_from(node: Object, pod: Object) -> bool:
    """Whether its pods keep away from a node by a label of it: spot, or a pool that lost a host."""
    labels = node["metadata"].get("labels") or {}
    wanted = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED) or {}
    terms = [term.get("matchExpressions") or () for term in wanted.get("nodeSelectorTerms") or ()]
    refused = [any(_refuses(expression, labels) for expression in term) for term in terms]
    return bool(refused) and all(refused)  # one term that does not refuse it is enough


def _refuses(expression: Object, labels: Object) -> bool:
    return expression["operator"] == "NotIn" and labels.get(expression["key"]) in expression["values"]


def _pod_of(jobset: Object, job: str) -> Object:
    replicated = jobset["spec"]["replicatedJobs"]
    chosen = next((one for one in replicated if one["name"] == job), replicated[0])
    found: Object = chosen["template"]["spec"]["template"]["spec"]
    return found


def holder_of(pod: Object) -> str | None:
    """Who a pod belongs to, for people, where it keeps others from its node's chips; None where it does not."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return None
    metadata, labels = pod["metadata"], pod["metadata"].get("labels") or {}
    if labels.get(MANAGED_BY) == OURS:
        return f"job {labels.get(JOB)!r} (attempt {labels.get(ATTEMPT)})"
    containers = pod["spec"]["containers"]
    if not any(_CHIPS & ((c.get("resources") or {}).get("requests") or {}).keys() for c in containers):
        return None
    return f"pod {metadata['name']!r} of namespace {metadata['namespace']!r}"


def holders(pods: Iterable[Object]) -> dict[str, str]:
    """Node → who has it, of these pods."""
    found = ((pod["spec"].get("nodeName"), holder_of(pod)) for pod in pods)
    return {node: who for node, who in found if node and who}


def read_event(found: Object) -> EventFacts:
    about = found.get("involvedObject") or {}
    moments = (found.get("lastTimestamp"), found.get("eventTime"), found["metadata"].get("creationTimestamp"))
    return EventFacts(
        kind=about.get("kind", ""),
        name=about.get("name", ""),
        said=Said(reason=found.get("reason") or "", message=found.get("message") or ""),
        at=next((read_time(moment) or 0.0 for moment in moments if moment), 0.0),
    )


def read_workload(found: Object, others: Iterable[Object] = ()) -> WorkloadFacts:
    """What Kueue says of an attempt. `others`: what it says of whatever else is in its namespace."""
    conditions = _conditions(found)
    reserved: Object = next((c for c in _raw_conditions(found) if c["type"] == "QuotaReserved"), {})
    ahead = [other for other in (others if _waits(found) else ()) if _waits(other) and _turn(other) < _turn(found)]
    return WorkloadFacts(
        is_admitted="Admitted" in conditions,
        pending=reserved.get("message", "") if reserved.get("status", "True") != "True" else _unchecked(found),
        evicted=conditions.get("Evicted"),
        position=1 + sum(1 for other in ahead if _queue_of(other) == _queue_of(found)) if _waits(found) else None,
    )


def _unchecked(workload: Object) -> str:
    """What a check says that it has not passed, such as that of the machines that are made for it."""
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    return next((str(check.get("message", "")) for check in checks if check.get("state") != "Ready"), "")


def is_workload_of(found: Object, uid: str) -> bool:
    """Whether it is what Kueue keeps for the object of this uid."""
    return (found["metadata"].get("labels") or {}).get(WORKLOAD_OF) == uid


def _waits(workload: Object) -> bool:
    """Whether it stands in a queue."""
    return workload["spec"].get("active", True) and not {"QuotaReserved", "Finished"} & _conditions(workload).keys()


def _queue_of(workload: Object) -> str:
    return str(workload["spec"].get("queueName", ""))


def _turn(workload: Object) -> tuple[int, str, str]:
    """When its turn is among those of a queue: by priority, then by age, as Kueue takes them."""
    metadata = workload["metadata"]
    return -int(workload["spec"].get("priority") or 0), metadata.get("creationTimestamp", ""), metadata["name"]


def read_time(text: str | None) -> float | None:
    """Kubernetes' `2026-11-27T22:32:29Z` as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp() if text else None


def _read_container(status: Object) -> ContainerFacts:
    """Of the first container; while it waits for others that start before it, what keeps these counts as its own."""
    found = next(iter(status.get("containerStatuses") or ()), None)
    state = (found or {}).get("state") or {}
    if (state.get("waiting") or {}).get("reason") == _BEHIND_OTHERS:
        state = next(_waiting_before(status), state)
    if ended := state.get("terminated"):
        return ContainerFacts(
            has_ended=True,
            ended=Said(reason=ended.get("reason") or "", message=ended.get("message") or ""),
            exit_code=ended.get("exitCode"),
            signal=ended.get("signal") or None,
        )
    waiting = state.get("waiting")
    said = Said(reason=waiting.get("reason") or "", message=waiting.get("message") or "") if waiting else None
    return ContainerFacts(is_running="running" in state, waiting=said)


def _waiting_before(status: Object) -> Iterator[Object]:
    """The states of containers that start before the others and wait for something of their own."""
    for container in status.get("initContainerStatuses") or ():
        state: Object = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason") not in (None, _BEHIND_OTHERS):
            yield state


def _read_unsteady(spec: Object, status: Object) -> Said | None:
    """Of the containers that run beside the others, and are started again whenever they end."""
    beside = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    for found in status.get("initContainerStatuses") or ():
        if found["name"] in beside and found.get("restartCount", 0) >= _MOST_RESTARTS:
            ended = (found.get("lastState") or {}).get("terminated") or {}
            said = " ".join(str(ended.get("message") or "").split())
            return Said(reason=found["name"], message=said or f"exit code {ended.get('exitCode')}")
    return None


def _deletion_asked(metadata: Object) -> float | None:
    """Kubernetes writes down when a deletion is to be over: its grace before that it was asked for."""
    moment = read_time(metadata.get("deletionTimestamp"))
    return None if moment is None else moment - float(metadata.get("deletionGracePeriodSeconds") or 0)


def _raw_conditions(found: Object) -> list[Object]:
    return list((found.get("status") or {}).get("conditions") or ())


def _conditions(found: Object) -> dict[str, Said]:
    """Those that hold."""
    return {
        condition["type"]: Said(reason=condition.get("reason") or "", message=condition.get("message") or "")
        for condition in _raw_conditions(found)
        if condition["status"] == "True"
    }
