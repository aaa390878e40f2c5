"""A pod's status as its containers make it: what the real kubelet would report, word for word where it matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from control_plane import Object

from kubelet.container import Container, Running, Terminated, Waiting

DONE = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Why the kubelet itself ended a pod; `disruption` is the reason of its condition DisruptionTarget."""

    reason: str
    message: str
    disruption: str | None = None


SHUT_DOWN = Verdict(
    reason="Terminated",
    message="Pod was terminated in response to imminent node shutdown.",
    disruption="TerminationByKubelet",
)
REJECTED = Verdict(reason="NodeShutdown", message="Pod was rejected as the node is shutting down.")
TOO_LONG = Verdict(reason="DeadlineExceeded", message="Pod was active on the node longer than the specified deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a status is made of."""

    phase: str
    first: Sequence[Container]
    main: Sequence[Container]
    address: str
    verdict: Verdict | None
    stamp: str
    before: Mapping[str, Any]


def status(view: View) -> Object:
    """The status to be patched in; what it does not name stays, such as conditions of others."""
    verdict = {"reason": view.verdict.reason, "message": view.verdict.message} if view.verdict else {}
    return {
        "phase": view.phase,
        "conditions": _conditions(view),
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": view.address,
        "podIPs": [{"ip": view.address}],
        "initContainerStatuses": container_statuses(view.first),
        "containerStatuses": container_statuses(view.main),
        "startTime": view.before.get("startTime") or view.stamp,
        **verdict,
    }


def container_statuses(containers: Sequence[Container]) -> list[Object]:
    """One per container."""
    return [_container_status(one) for one in containers]


def is_ready(container: Container) -> bool:
    """Whether it counts as ready: by its probes, or because it has done what it was to do before the others."""
    state = container.state
    is_done = container.is_init and isinstance(state, Terminated) and state.exit_code == 0
    return is_done or (isinstance(state, Running) and container.is_ready)


def _container_status(container: Container) -> Object:
    state, last = container.state, container.last
    if isinstance(state, Terminated) and container.retry_at is not None:
        shown, last = _waiting(_back_off(container)), state
    elif isinstance(state, Terminated):
        shown = {"terminated": state.written()}
    elif isinstance(state, Running):
        shown = {"running": {"startedAt": state.started}}
    else:
        shown = _waiting(state)
    return {
        "name": container.name,
        "image": container.spec.get("image", ""),
        "imageID": "",
        "ready": is_ready(container),
        "started": container.is_started,
        "restartCount": container.restarts,
        "state": shown,
        "lastState": {"terminated": last.written()} if last else {},
        **({"containerID": f"process://{container.process.pid}"} if container.process else {}),
    }


def _back_off(container: Container) -> Waiting:
    text = f"back-off {2**container.restarts}s restarting failed container={container.name}"
    return Waiting(reason="CrashLoopBackOff", message=text)


def _waiting(state: Waiting) -> Object:
    return {"waiting": {"reason": state.reason, **({"message": state.message} if state.message else {})}}


def _conditions(view: View) -> list[Object]:
    ready = view.phase == "Running" and all(is_ready(one) for one in view.main)
    why: Object = {"reason": None if ready else "ContainersNotReady"}  # None: the patch drops what was there
    if view.phase in DONE:
        why = {"reason": "PodCompleted" if view.phase == "Succeeded" else "PodFailed"}
    initialized = all(isinstance(one.state, Terminated) or one.is_sidecar for one in view.first)
    conditions = [
        _condition("PodReadyToStartContainers", view.phase not in DONE),
        _condition("Initialized", initialized, **({"reason": "PodCompleted"} if view.phase == "Succeeded" else {})),
        _condition("Ready", ready, **why),
        _condition("ContainersReady", ready, **why),
    ]
    if view.verdict and view.verdict.disruption:
        said = {"reason": view.verdict.disruption, "message": view.verdict.message}
        conditions.append(_condition("DisruptionTarget", True, **said))
    before = {one["type"]: one for one in view.before.get("conditions", [])}
    return [{**one, "lastTransitionTime": _since(one, before.get(one["type"]), view.stamp)} for one in conditions]


def _condition(kind: str, is_true: bool, **why: Any) -> Object:
    return {"type": kind, "status": str(is_true), **why}


def _since(condition: Object, before: Object | None, stamp: str) -> str:
    if before and before["status"] == condition["status"]:
        return str(before["lastTransitionTime"])
    return stamp
