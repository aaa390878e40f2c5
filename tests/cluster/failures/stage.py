"""Where one failure is played: a namespace, node pools that no other pod can use, and a folder that its pods share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cluster import Cluster
from control_plane import ApiError, Object
from kubelet import slice_nodes
from recorder import Recorder

CASE_LABEL = "tests.prefect-tpu/case"
NODES = "/api/v1/nodes"
INDEX = "batch.kubernetes.io/job-completion-index"
MAINTENANCE = ("cloud.google.com/active-node-maintenance", "cloud.google.com/scheduled-maintenance-time")
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.05
T = TypeVar("T")


class Stage:
    """Everything of one case; `name` is its namespace, and how its pools' names begin."""

    def __init__(self, cluster: Cluster, recorder: Recorder, name: str, folder: Path) -> None:
        self.cluster, self.api, self.kubelet, self.recorder = cluster, cluster.api, cluster.kubelet, recorder
        self.name, self.folder = name, folder
        self.nodes: dict[str, Object] = {}

    # Places

    @property
    def selector(self) -> dict[str, str]:
        """Of the nodes that only this case may use."""
        return {CASE_LABEL: self.name}

    def add_pool(self, ending: str, accelerator: str, change: Callable[[list[Object]], list[Object]] = list) -> None:
        """A node pool of one slice, ready for pods. `change`: what of it is there, and how."""
        nodes = change(slice_nodes(accelerator, f"{self.name}-{ending}"))
        for node in nodes:
            node["metadata"]["labels"][CASE_LABEL] = self.name
            self.nodes[node["metadata"]["name"]] = node
        self._ready(self.kubelet.add_nodes(nodes))

    def restore(self) -> None:
        """All nodes as they were at first."""
        for name, node in self.nodes.items():
            self.kubelet.add_nodes([node])
            labels = dict.fromkeys(MAINTENANCE)
            change = {"metadata": {"labels": labels}, "spec": {"taints": node["spec"]["taints"], "unschedulable": None}}
            self.api.patch(f"{NODES}/{name}", change, "merge-patch")
        self._ready(list(self.nodes))

    def clear(self) -> None:
        """Nothing of it is left."""
        pods = self.path("v1", "pods")
        self.api.delete(self.path("jobset.x-k8s.io/v1alpha2", "jobsets"))
        self.api.delete(self.path("batch/v1", "jobs"), None, propagationPolicy="Background")
        self.api.delete(pods, None, gracePeriodSeconds=0)
        self.until(lambda: not self.api.get(pods)["items"], "the end of its pods")
        self.cluster.delete_namespace(self.name)
        self.cluster.delete_nodes(*self.nodes)

    def taint(self, node: str, taint: Mapping[str, str]) -> None:
        """One more."""
        found = self.api.get(f"{NODES}/{node}")["spec"].get("taints", [])
        self.api.patch(f"{NODES}/{node}", {"spec": {"taints": [*found, dict(taint)]}}, "merge-patch")

    # Objects

    def path(self, group: str, plural: str, name: str = "") -> str:
        """Of objects of the namespace; `group` such as `v1` or `batch/v1`."""
        root = "/api/v1" if group == "v1" else f"/apis/{group}"
        return f"{root}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    def make(self, group: str, plural: str, body: Mapping[str, Any]) -> None:
        """Create an object of the namespace."""
        self.api.post(self.path(group, plural), {"apiVersion": group, **body})

    def pods(self, jobset: str) -> list[Object]:
        """By their hosts' numbers; those that are on their way out are left out."""
        label = f"jobset.sigs.k8s.io/jobset-name={jobset}"
        found = self.api.get(self.path("v1", "pods"), labelSelector=label)["items"]
        living = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(living, key=lambda pod: int(pod["metadata"]["labels"][INDEX]))

    def pod(self, jobset: str, host: int = 1) -> str:
        return str(self.pods(jobset)[host]["metadata"]["name"])

    def node(self, jobset: str, host: int = 1) -> str:
        return str(self.pods(jobset)[host]["spec"]["nodeName"])

    def running(self, jobset: str, hosts: int) -> None:
        """Until so many of its containers run, and have said that they are there."""

        def run() -> bool:
            marks = list(self.folder.glob(f"up-{jobset}-*"))
            pods = self.pods(jobset)
            return len(pods) == hosts == len(marks) and all(pod["status"]["phase"] == "Running" for pod in pods)

        try:
            self.until(run, f"{hosts} running pods of {jobset}")
        except TimeoutError as exc:
            raise TimeoutError(f"{exc}: {self._standing(jobset)}") from exc

    # Signs between the test and programs

    def strike_file(self, jobset: str) -> Path:
        """Programs wait for it."""
        return self.folder / f"strike-{jobset}"

    def process(self, jobset: str, words: Sequence[str], host: int = 1) -> int:
        """The process of a host whose command begins with these words, by its number on this machine.

        In its container it has another one.
        """
        folder, index = str(self.folder).encode(), f"JOB_COMPLETION_INDEX={host}".encode()
        for place in Path("/proc").glob("[0-9]*"):
            command, variables = (_words(place / name) for name in ("cmdline", "environ"))
            is_asked = [Path(os.fsdecode(word)).name for word in command[: len(words)]] == list(words)
            if is_asked and index in variables and any(folder in word for word in command):
                return int(place.name)
        raise LookupError(f"{self.name}: host {host} of {jobset} has no process {' '.join(words)}")

    def until(self, look: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
        """Polls until something is true; a 404 counts as not yet."""
        end = time.monotonic() + seconds
        while True:
            try:
                if found := look():
                    return found
            except (ApiError, IndexError, KeyError) as error:
                if isinstance(error, ApiError) and error.status != 404:
                    raise
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name}: {what} did not come within {seconds:.0f} s")
            time.sleep(LOOK_SECONDS)

    def _standing(self, jobset: str) -> str:
        """What keeps its pods from running, for the error of a test."""
        found = []
        for pod in self.pods(jobset):
            status = pod["status"]
            said = [one.get("message", "") for one in status.get("conditions", ()) if one["status"] == "False"]
            states = [one.get("state") for one in status.get("containerStatuses", ())]
            found.append(f"{pod['metadata']['name']} {status.get('phase')} {said} {states}")
        return "; ".join(found) or "no pods"

    def _ready(self, names: list[str]) -> None:
        self.until(lambda: all(self._is_ready(name) for name in names), f"nodes {', '.join(names)}")

    def _is_ready(self, name: str) -> bool:
        taints = self.api.get(f"{NODES}/{name}")["spec"].get("taints", [])
        return not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)


def _words(place: Path) -> list[bytes]:
    try:
        return place.read_bytes().split(b"\0")
    except OSError:  # it has ended meanwhile
        return []
