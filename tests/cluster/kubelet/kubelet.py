"""A kubelet of many nodes whose containers are processes of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import urllib3
from control_plane import Api, ApiError, ControlPlane, Object

from kubelet import logs
from kubelet.addresses import Addresses
from kubelet.bench import Bench
from kubelet.container import Container, Waiting
from kubelet.images import Image, Images
from kubelet.messages import Changed, Gone, ShutDown
from kubelet.namespaces import best_sandbox
from kubelet.nodes import HEARTBEAT_SECONDS, Nodes
from kubelet.pod import PodRun
from kubelet.sandbox import Sandbox
from kubelet.server import Asked, LogServer, Refused
from kubelet.status import DONE, REJECTED

SPOT_SECONDS = 15.0  # of the 30 of a Spot VM's notice, pods of users get the first half
MAINTENANCE_SECONDS = 3600.0
MAINTENANCE_TAINT = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
UNREACHABLE = (ApiError, OSError, urllib3.exceptions.HTTPError)


class ProcessKubelet:
    """Enter it to start it; `errors` has what went wrong in it, and must be empty at the end."""

    def __init__(
        self,
        plane: ControlPlane,
        images: Mapping[str, Image],
        sandbox: Sandbox | None = None,
        folder: Path | None = None,
    ) -> None:
        self.api: Api = plane.kubelet_api
        folder = folder or plane.folder / "kubelet"
        self.images, self.errors = Images(images), list[str]()
        self._server = LogServer(plane.site.authority.issue(folder / "pki", "process-kubelet"), self._find_log)
        self.nodes = Nodes(self.api, self._server.port)
        self._bench = Bench(
            api=self.api,
            images=self.images,
            sandbox=sandbox or best_sandbox(),
            addresses=Addresses(self.api),
            folder=folder,
            server={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(plane.site.ports["api"])},
            can_speak=self.nodes.is_alive,
            fail=self._note_error,
        )
        self._pods: dict[str, PodRun] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()

    def bucket(self, name: str) -> Path:
        """The folder of this machine that pods see where they mount a bucket of this name."""
        folder = self._bench.folder / "buckets" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def __enter__(self) -> ProcessKubelet:
        for target in (self._beat, self._watch):
            threading.Thread(target=target, name=f"kubelet{target.__name__}", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._leave(self._of(*self.nodes.names))
        self._server.stop()

    # Nodes

    def add_nodes(self, nodes: Iterable[Object]) -> list[str]:
        """Register nodes, or have them back; their names."""
        names = []
        for node in nodes:
            self.nodes.add(node)
            names.append(str(node["metadata"]["name"]))
            self._look_again(names[-1])
        return names

    def shut_down(self, *names: str, seconds: float = SPOT_SECONDS, then: Callable[[], None] | None = None) -> None:
        """Graceful node shutdown: pods are asked to end and have at most so many seconds; returns at once.

        `then` is called in the background when the last of them is over.
        """
        for name in names:
            self.nodes.note_shutdown(name)
        pods = self._of(*names)
        for pod in pods:
            pod.tell(ShutDown(seconds=seconds))
        if then:
            threading.Thread(target=self._after, args=(pods, then), name="after-shutdown", daemon=True).start()

    def reclaim_spot(self, *names: str, seconds: float = SPOT_SECONDS) -> None:
        """Spot VMs are taken back: a graceful shutdown, then the nodes are gone; returns at once."""
        self.shut_down(*names, seconds=seconds, then=lambda: self.delete_nodes(*names))

    def maintain(self, *names: str, seconds: float = MAINTENANCE_SECONDS) -> None:
        """A host's maintenance begins: label and taint, then the shutdown, then the nodes are gone; returns at once."""
        for name in names:
            labels: dict[str, str | None] = {"cloud.google.com/active-node-maintenance": "ONGOING"}
            self.nodes.label(name, labels, [MAINTENANCE_TAINT])
        self.reclaim_spot(*names, seconds=seconds)

    def announce_maintenance(self, *names: str, at: float) -> None:
        """Maintenance is planned for a time, in seconds since 1970."""
        for name in names:
            self.nodes.label(name, {"cloud.google.com/scheduled-maintenance-time": str(int(at))})

    def silence(self, *names: str) -> None:
        """Nodes are cut off: no heartbeat, no word of their pods, which run on and hear nothing."""
        for name in names:
            self.nodes.silence(name)

    def reconnect(self, *names: str) -> None:
        """Silent nodes are heard again, and do what they missed."""
        for name in names:
            self.nodes.speak(name)
            self._look_again(name)

    def crash(self, *names: str) -> None:
        """Hosts are gone without a word: no heartbeat, no processes; their nodes stay."""
        self.silence(*names)
        self._leave(self._of(*names))

    def delete_nodes(self, *names: str) -> None:
        """Hosts are gone, and their nodes with them."""
        self.crash(*names)
        for name in names:
            self.nodes.delete(name)

    # Pods

    def _of(self, *names: str) -> list[PodRun]:
        with self._lock:
            return [pod for pod in self._pods.values() if pod.node in names]

    def _leave(self, pods: list[PodRun]) -> None:
        for pod in pods:
            pod.tell(Gone())
        for pod in pods:
            pod.thread.join(10)

    def _after(self, pods: list[PodRun], then: Callable[[], None]) -> None:
        """A node is not gone before its kubelet has said how its pods ended."""
        for pod in pods:
            while pod.thread.is_alive() and not pod.is_told.wait(0.1):
                continue
        then()

    def _look_again(self, node: str) -> None:
        """What has happened to the pods of a node while it was away."""
        listed = self.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
        there = {pod["metadata"]["uid"] for pod in listed}
        for pod in listed:
            self._on_pod("MODIFIED", pod)
        for run in self._of(node):
            if run.uid not in there:
                run.tell(Gone())

    def _on_pod(self, kind: str, pod: Object) -> None:
        node, uid = pod["spec"].get("nodeName", ""), pod["metadata"]["uid"]
        if not self.nodes.is_alive(node):
            return
        with self._lock:
            known = self._pods.get(uid)
            if known and not known.thread.is_alive() and not known.is_told.is_set() and kind != "DELETED":
                known.pod = pod
                known.report_lost()
            elif known:
                known.tell(Gone() if kind == "DELETED" else Changed(pod=pod))
            elif kind != "DELETED" and pod.get("status", {}).get("phase") not in DONE:
                self._take_in(pod)

    def _take_in(self, pod: Object) -> None:
        if self.nodes.is_shutting_down(pod["spec"]["nodeName"]):
            self._reject(pod)
            return
        run = self._pods[pod["metadata"]["uid"]] = PodRun(pod, self._bench)
        run.thread.start()

    def _reject(self, pod: Object) -> None:
        meta = pod["metadata"]
        said = {"phase": "Failed", "reason": REJECTED.reason, "message": REJECTED.message}
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
        self.api.patch(path, {"metadata": {"uid": meta["uid"]}, "status": said})

    # Threads

    def _beat(self) -> None:
        while not self._stopping.wait(HEARTBEAT_SECONDS):
            try:
                self.nodes.beat()
            except UNREACHABLE as error:
                self._note_error(f"heartbeat: {error!r}")

    def _watch(self) -> None:
        while not self._stopping.is_set():
            try:
                listed = self.api.get("/api/v1/pods")
                self._compare(listed["items"])
                for event in self.api.watch("/api/v1/pods", listed["metadata"]["resourceVersion"]):
                    if self._stopping.is_set():
                        return
                    if event["type"] == "ERROR":
                        break
                    if event["type"] != "BOOKMARK":
                        self._on_pod(event["type"], event["object"])
            except UNREACHABLE as error:
                self._note_error(f"watch: {error!r}")
                self._stopping.wait(0.5)

    def _compare(self, listed: list[Object]) -> None:
        """What a watch has missed; pods that are over are forgotten."""
        for pod in listed:
            self._on_pod("MODIFIED", pod)
        there = {pod["metadata"]["uid"] for pod in listed}
        with self._lock:
            for uid, run in list(self._pods.items()):
                if uid not in there:
                    run.tell(Gone())
                if not run.thread.is_alive():
                    del self._pods[uid]

    def _note_error(self, text: str) -> None:
        if not self._stopping.is_set():
            self.errors.append(text)

    # Logs

    def _find_log(self, asked: Asked) -> Iterator[bytes]:
        container = self._container(asked)
        restart = container.restarts - 1 if asked.is_previous else container.restarts
        path, name = container.log_of(restart), f'"{asked.container}" in pod "{asked.pod}"'
        if asked.is_previous and not path.exists():
            raise Refused(400, f"previous terminated container {name} not found")
        if not path.exists():
            reason = container.state.reason if isinstance(container.state, Waiting) else "ContainerCreating"
            raise Refused(400, f"container {name} is waiting to start: {reason}")
        over = threading.Event()
        over.set()
        return logs.read(path, asked.selection, over if asked.is_previous else container.is_over)

    def _container(self, asked: Asked) -> Container:
        with self._lock:
            runs = [run for run in self._pods.values() if self._is_of(run, asked)]
        found = [one for run in runs for one in run.containers if one.name == asked.container]
        if not found:
            raise Refused(404, f'container "{asked.container}" of pod "{asked.pod}" is not here')
        return found[-1]

    def _is_of(self, run: PodRun, asked: Asked) -> bool:
        meta = run.pod["metadata"]
        return bool(meta["namespace"] == asked.namespace and meta["name"] == asked.pod)
