"""Nodes and pods without processes: they say to the API server what kubelets would say, when they are told to."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from control_plane import Api, ApiError, Object
from kubelet import slice_nodes

AT_ONCE = 4
WATCH_SECONDS = 5
PREEMPTED = 81  # how a runner of ours ends that was told to leave
MURMUR = "tests.example/murmur"  # a condition that nobody asks for


class QuietHosts:
    """Every pod of a namespace that gets a node is up at once, and gone at once when it is deleted.

    Args:
        api: of the control plane.
        namespace: of the pods.
        is_up: hears of each pod that has come up, in one of some threads.
    """

    def __init__(self, api: Api, namespace: str, is_up: Callable[[Object], None]) -> None:
        self._api, self._is_up = api, is_up
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._over = threading.Event()
        self._began: set[str] = set()
        self._ending: set[str] = set()
        self._hands = ThreadPoolExecutor(AT_ONCE)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self.errors: list[str] = []

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watcher.join()
        self._hands.shutdown(cancel_futures=True)

    def lose(self, pod: Object) -> None:
        """Its node is shut down: a spot VM is taken back, and its program has left in time."""
        reason = {"reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}
        said = [
            _condition("DisruptionTarget", True, reason="TerminationByKubelet", message=reason["message"]),
            *(_condition(name, False, reason="PodFailed") for name in ("Ready", "ContainersReady")),
        ]
        ended = {"terminated": {"exitCode": PREEMPTED, "reason": "Error", "startedAt": _now(), "finishedAt": _now()}}
        self._say(pod, {"phase": "Failed", **reason, "conditions": said, **_containers(pod, ended)})

    def murmur(self, pod: Object, number: int) -> None:
        """Something that means nothing has changed."""
        self._say(pod, {"conditions": [_condition(MURMUR, number % 2 == 0, message=str(number))]})

    def _come_up(self, pod: Object) -> None:
        running = {"running": {"startedAt": _now()}}
        ready = [_condition(name, True) for name in ("Initialized", "Ready", "ContainersReady")]
        address = {"hostIP": "127.0.0.1", "podIP": "127.0.0.1", "startTime": _now()}
        if self._say(pod, {"phase": "Running", **address, "conditions": ready, **_containers(pod, running)}):
            self._is_up(pod)

    def _say(self, pod: Object, status: Object) -> bool:
        """Whether the pod is there to be told of."""
        try:
            self._api.patch(f"{self._path}/{pod['metadata']['name']}/status", {"status": status})
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _confirm(self, pod: Object) -> None:
        try:
            self._api.delete(f"{self._path}/{pod['metadata']['name']}", None, gracePeriodSeconds=0)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _watch(self) -> None:
        listed = self._api.get(self._path)
        version = listed["metadata"]["resourceVersion"]
        self._see(listed["items"])
        while not self._over.is_set():
            for event in self._api.watch(self._path, version, WATCH_SECONDS):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._see([event["object"]])

    def _see(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            uid, is_deleted = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
            if is_deleted and uid not in self._ending:
                self._ending.add(uid)
                self._do(self._confirm, pod)
            elif pod["spec"].get("nodeName") and uid not in self._began and not is_deleted:
                self._began.add(uid)
                self._do(self._come_up, pod)

    def _do(self, deed: Callable[[Object], None], pod: Object) -> None:
        def carefully() -> None:
            try:
                deed(pod)
            except Exception as error:  # the measurement says so, and goes on
                self.errors.append(f"{pod['metadata']['name']}: {error!r}")

        self._hands.submit(carefully)


def add_nodes(api: Api, accelerator: str, count: int, port: int) -> None:
    """So many slices, each in a pool of its own. Nobody waits for heartbeats of theirs; port: of their logs."""
    nodes = [node for number in range(count) for node in slice_nodes(accelerator, f"scale-{number}")]
    with ThreadPoolExecutor(AT_ONCE) as hands:
        list(hands.map(lambda node: _add(api, node, port), nodes))


def _add(api: Api, node: Object, port: int) -> None:
    ready = {
        "conditions": [_condition("Ready", True, reason="KubeletReady")],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    api.post("/api/v1/nodes", {**node, "status": {**node["status"], **ready}})
    # What registers a node taints it until it has said that it is ready.
    api.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", {"status": ready})


def _containers(pod: Object, state: Object) -> Object:
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": _now(), "finishedAt": _now()}}
    spec = pod["spec"]
    return {
        "initContainerStatuses": [_container(one, done) for one in spec.get("initContainers", [])],
        "containerStatuses": [_container(one, state) for one in spec["containers"]],
    }


def _container(container: Object, state: Object) -> Object:
    is_up = "running" in state
    about = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    return {**about, "ready": is_up, "started": is_up, "state": {"running": None, "waiting": None, **state}}


def _condition(kind: str, is_true: bool, **why: Any) -> Object:
    return {"type": kind, "status": str(is_true), "lastTransitionTime": _now(), **why}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
