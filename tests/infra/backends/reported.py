"""What did Kubernetes report of a failure? A recording → the few words that matter, as Kubernetes says them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recorded import Recording

Object = dict[str, Any]
MOST = 2  # more would hide what matters
LONGEST = 220
_HARMLESS = "follower pod node selector"  # of each healthy exclusive JobSet
_QUIET = ("Completed", "ContainerCreating", "PodInitializing")


def reported(recording: Recording) -> list[str]:
    """The weightiest first: why a pod was disrupted, how a container ended, what was not made, what failed."""
    found = dict.fromkeys(_short(said) for said in _said(recording))
    return list(found)[:MOST] or ["nothing: its pods run"]


def _said(recording: Recording) -> Iterator[str]:
    pods = [*recording.objects.get("pod", ()), *recording.gone]
    pods.sort(key=lambda pod: "DisruptionTarget" not in str(pod["status"]))
    for pod in pods:
        yield from _of_conditions("DisruptionTarget", pod, "DisruptionTarget")
    for kind in ("node", "lost node"):
        for node in recording.objects.get(kind, ()):
            yield from _of_node(node, is_gone=kind == "lost node")
    for pod in pods:
        yield from _of_container(pod, "waiting")
    for pod in sorted(pods, key=lambda pod: "deletionTimestamp" in pod["metadata"]):
        yield from _of_container(pod, "terminated")
    for event in recording.objects.get("event", ()):
        if event["reason"] in ("FailedCreate", "FailedMount") and _HARMLESS not in event["message"]:
            yield f"event {event['reason']}: {event['message']}"
    for workload in recording.objects.get("workload", ()):
        yield from _of_conditions("Workload Evicted", workload, "Evicted")
        yield from _of_conditions("Workload QuotaReserved=False", workload, "QuotaReserved", status="False")
    for pod in pods:
        yield from _of_conditions("PodScheduled=False", pod, "PodScheduled", status="False")
    for job in recording.objects.get("job", ()):
        yield from _of_conditions("Job FailureTarget", job, "FailureTarget")
    if not recording.objects.get("jobset"):
        yield "the JobSet is gone"
    for pod in pods:
        if "deletionTimestamp" in pod["metadata"]:
            yield "the pod is deleted; no condition says why"


def _of_conditions(words: str, found: Object, kind: str, status: str = "True") -> Iterator[str]:
    for condition in (found.get("status") or {}).get("conditions", ()):
        if (condition["type"], condition["status"]) == (kind, status):
            yield f"{words} {condition.get('reason', '')}: {condition.get('message', '')}".rstrip(": ")


def _of_node(node: Object, *, is_gone: bool) -> Iterator[str]:
    if is_gone:
        yield f"node {node['metadata']['name']} is gone"
        return
    for condition in node["status"]["conditions"]:
        if condition["status"] == "Unknown":
            yield f"node Ready=Unknown {condition['reason']}: {condition['message']}"


def _of_container(pod: Object, state: str) -> Iterator[str]:
    for status in (pod.get("status") or {}).get("containerStatuses", ()):
        said = (status.get("state") or {}).get(state)
        if not said or said.get("reason") in _QUIET or said.get("exitCode") == 0:
            continue
        if state == "waiting":
            yield f"container waiting {said.get('reason')}: {said.get('message', '')}".rstrip(": ")
        else:
            yield f"container terminated {said.get('reason')}, exit code {said.get('exitCode')}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
