"""Nodes that are there: registered, with heartbeats, and what happens to them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from control_plane import Api, ApiError, Object

from kubelet.clock import now, precisely_now

HEARTBEAT_SECONDS = 2.0
BEATS_AT_ONCE = 4
VERSION = "v1.36.3"
HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


class Nodes:
    """The nodes of one kubelet; `port` is where each says that its logs are to be had."""

    def __init__(self, api: Api, port: int) -> None:
        self._api, self._port = api, port
        self._objects: dict[str, Object] = {}
        self._alive: set[str] = set()
        self._shutting: set[str] = set()
        self._lock = threading.Lock()

    def knows(self, name: str) -> bool:
        """Whether it is a node of this kubelet, alive or not."""
        return name in self._objects

    def is_alive(self, name: str) -> bool:
        """Whether its kubelet works and reaches the API server."""
        return name in self._alive

    def is_shutting_down(self, name: str) -> bool:
        """Whether it takes no new pods."""
        return name in self._shutting

    @property
    def names(self) -> list[str]:
        """All of them."""
        return list(self._objects)

    def labels(self, name: str) -> dict[str, str]:
        """As they were when the node was added."""
        return dict(self._objects[name]["metadata"]["labels"])

    def add(self, node: Object) -> None:
        """Register a node, or one that is back."""
        name = node["metadata"]["name"]
        with self._lock:
            self._objects[name] = node
            self._alive.add(name)  # before it is ready: the scheduler binds pods to it within milliseconds
            self._shutting.discard(name)
        status = self._status(node)
        try:  # whole, as kubelets do: nobody sees it without what it has
            self._api.post("/api/v1/nodes", {**node, "status": status})
        except ApiError as error:
            if error.status != 409:
                raise
        self._renew(name)
        self._api.patch(f"/api/v1/nodes/{name}/status", {"status": status})

    def silence(self, name: str) -> None:
        """No heartbeat from now on."""
        with self._lock:
            self._alive.discard(name)

    def speak(self, name: str) -> None:
        """Heartbeats again."""
        self.add(self._objects[name])

    def note_shutdown(self, name: str) -> None:
        """Say that the node shuts down; it still reports how its pods end."""
        with self._lock:
            self._shutting.add(name)
        ready = _condition("Ready", "False", "KubeletNotReady", "node is shutting down")
        self._api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready]}})

    def label(self, name: str, labels: dict[str, str | None], taints: Iterable[dict[str, str]] = ()) -> None:
        """Set labels (None takes one away) and add taints."""
        self._api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
        if wanted := list(taints):
            found = self._api.get(f"/api/v1/nodes/{name}")["spec"].get("taints", [])
            kept = [one for one in found if one["key"] not in {taint["key"] for taint in wanted}]
            self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [*kept, *wanted]}}, "merge-patch")

    def delete(self, name: str) -> None:
        """The VM and its object are gone."""
        with self._lock:
            for names in (self._alive, self._shutting):
                names.discard(name)
            self._objects.pop(name, None)
        try:
            self._api.delete(f"/api/v1/nodes/{name}")
        except ApiError as error:
            if error.status != 404:
                raise

    def beat(self) -> None:
        """One heartbeat of each, some at once: on a busy machine one after the other takes longer than a node may."""
        with ThreadPoolExecutor(BEATS_AT_ONCE) as pool:
            list(pool.map(self._beat_one, list(self._alive)))

    def _beat_one(self, name: str) -> None:
        try:
            self._api.patch(_lease(name), {"spec": {"renewTime": precisely_now()}}, "merge-patch")
        except ApiError as error:
            if error.status != 404:  # it is only being registered
                raise

    def _renew(self, name: str) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": precisely_now()}
        meta = {"name": name, "namespace": "kube-node-lease"}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}
        self._api.apply(_lease(name), lease, "kubelet")

    def _status(self, node: Object) -> Object:
        name = node["metadata"]["name"]
        texts = ("kernelVersion", "bootID", "machineID", "systemUUID")
        system = {
            "architecture": "amd64",
            "operatingSystem": "linux",
            "osImage": "Container-Optimized OS from Google",
            "containerRuntimeVersion": "process://1",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
        }
        return {
            **node["status"],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
            "nodeInfo": dict.fromkeys(texts, name) | system,
            "conditions": [_condition(*one) for one in HEALTHY],
        }


def _lease(name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"


def _condition(kind: str, is_true: str, reason: str, message: str) -> Object:
    stamp = now()
    said = {"type": kind, "status": is_true, "reason": reason, "message": message}
    return {**said, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
