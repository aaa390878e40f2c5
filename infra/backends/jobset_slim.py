"""What of an object of Kubernetes is remembered while it is watched? What is read of it: there may be thousands.

Whoever reads more of an object names it here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_PLACING = ("nodeSelector", "affinity", "tolerations")
_STATUS_OF_POD = ("phase", "reason", "message", "conditions")
_STATUS_OF_CONTAINER = ("name", "state", "lastState", "restartCount")
_OF_EVENT = ("reason", "message", "lastTimestamp", "eventTime")


def jobset(found: Object) -> Object:
    """Whether it goes on, and where its pods may be placed."""
    spec = found.get("spec") or {}
    return {
        "metadata": _some(found["metadata"], (*_METADATA, "annotations")),
        "spec": {
            **_some(spec, ("suspend",)),
            "replicatedJobs": [_replicated(one) for one in spec.get("replicatedJobs") or ()],
        },
        "status": _some(found.get("status"), ("conditions",)),
    }


def _replicated(one: Object) -> Object:
    pod = one["template"]["spec"]["template"]["spec"]
    return {"name": one["name"], "template": {"spec": {"template": {"spec": _some(pod, _PLACING)}}}}


def job(found: Object) -> Object:
    """Whether it goes on."""
    return {"metadata": _some(found["metadata"], _METADATA), "status": _some(found.get("status"), ("conditions",))}


def pod(found: Object) -> Object:
    """Where it is, and how its containers are."""
    spec, status = found.get("spec") or {}, found.get("status") or {}
    beside = [_some(one, ("name", "restartPolicy")) for one in spec.get("initContainers") or ()]
    containers = {
        name: [_some(one, _STATUS_OF_CONTAINER) for one in status.get(name) or ()]
        for name in ("containerStatuses", "initContainerStatuses")
    }
    return {
        "metadata": _some(found["metadata"], _METADATA),
        "spec": {**_some(spec, ("nodeName", "nodeSelector")), "initContainers": beside},
        "status": {**_some(status, _STATUS_OF_POD), **containers},
    }


def event(found: Object) -> Object:
    """What was said, of what, and when."""
    about = _some(found.get("involvedObject"), ("kind", "name"))
    return {"metadata": _some(found["metadata"], _METADATA), "involvedObject": about, **_some(found, _OF_EVENT)}


def node(found: Object) -> Object:
    """What it is, and who may be placed on it."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    ready = [_some(one, ("type", "status")) for one in conditions if one["type"] == "Ready"]
    return {
        "metadata": _some(found["metadata"], _METADATA),
        "spec": _some(found.get("spec"), ("taints", "unschedulable")),
        "status": {"conditions": ready},
    }


def workload(found: Object) -> Object:
    """Its place in which queue."""
    return {
        "metadata": _some(found["metadata"], _METADATA),
        "spec": _some(found.get("spec"), ("active", "queueName", "priority")),
        "status": _some(found.get("status"), ("conditions", "admissionChecks")),
    }


def _some(found: Mapping[str, Any] | None, names: Iterable[str]) -> Object:
    return {name: found[name] for name in names if name in found} if found else {}
