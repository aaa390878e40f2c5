"""How does a cluster look to a person who asks why a test failed?"""

from __future__ import annotations

from collections.abc import Iterator

from cluster import Cluster
from control_plane import Object

MOST_EVENTS = 60
MOST_LINES = 40  # of the scheduler's log


def told(cluster: Cluster) -> str:
    """Its nodes, its pods that have not succeeded, the newest events, and the end of the scheduler's log."""
    try:
        return "\n".join((*_nodes(cluster), *_pods(cluster), *_events(cluster), *_scheduler(cluster)))
    except Exception as exc:
        return f"It does not answer: {exc!r}"


def _nodes(cluster: Cluster) -> Iterator[str]:
    for node in cluster.api.get("/api/v1/nodes")["items"]:
        ready = next((one for one in node["status"].get("conditions", ()) if one["type"] == "Ready"), {})
        taints = [f"{one['key']}:{one['effect']}" for one in node["spec"].get("taints", ())]
        yield f"node {node['metadata']['name']}: ready {ready.get('status')}, taints {taints}"


def _pods(cluster: Cluster) -> Iterator[str]:
    for pod in cluster.api.get("/api/v1/pods")["items"]:
        meta, status = pod["metadata"], pod.get("status", {})
        if status.get("phase") != "Succeeded":
            said = [_condition(one) for one in status.get("conditions", ())]
            containers = [one.get("state") for one in status.get("containerStatuses", ())]
            place = f"{meta['namespace']}/{meta['name']} on {pod['spec'].get('nodeName')}"
            yield f"pod {place}: {status.get('phase')}, deleted {meta.get('deletionTimestamp')}, {said}, {containers}"


def _condition(one: Object) -> str:
    return f"{one['type']}={one['status']} {one.get('reason', '')} {one.get('message', '')}".strip()


def _events(cluster: Cluster) -> Iterator[str]:
    found = cluster.api.get("/api/v1/events")["items"]
    found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
    for event in found[-MOST_EVENTS:]:
        about = event["involvedObject"]
        at = event.get("lastTimestamp") or event.get("eventTime")
        yield f"event {at} {about.get('kind')} {about.get('name')}: {event.get('reason')} {event.get('message')}"


def _scheduler(cluster: Cluster) -> Iterator[str]:
    log = cluster.plane.folder / "kube-scheduler.log"
    yield from (f"scheduler: {line}" for line in log.read_text().splitlines()[-MOST_LINES:])
