"""Which pods make Google's autoscaler give a pool its nodes? Those that the scheduler could not place."""

from __future__ import annotations

from collections.abc import Callable

from control_plane import Api, Object
from taints import is_tolerated


def looks_at(api: Api) -> Callable[[Object], bool]:
    """Whether a pod of the cluster waits for a node such as the one that is given."""
    return lambda node: any(_would_take(pod, node) for pod in _unplaced(api))


def _unplaced(api: Api) -> list[Object]:
    pods = api.get("/api/v1/pods", fieldSelector="spec.nodeName=,status.phase=Pending")["items"]
    return [pod for pod in pods if is_given_up(pod)]


def is_given_up(pod: Object) -> bool:
    """Whether no node takes it now."""
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


def _would_take(pod: Object, node: Object) -> bool:
    """By its labels and taints: what else a node may lack is the scheduler's to say."""
    asked, tolerations = pod["spec"].get("nodeSelector", {}), pod["spec"].get("tolerations", [])
    is_chosen = bool(asked) and asked.items() <= node["metadata"]["labels"].items()
    return is_chosen and all(is_tolerated(taint, tolerations) for taint in node["spec"]["taints"])
