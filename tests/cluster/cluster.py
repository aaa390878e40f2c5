"""One control plane with a kubelet: what the fixtures hand out."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from control_plane import Api, ApiError, ControlPlane, build
from kubelet import Image, ProcessKubelet, cpu_nodes, python_image, slice_nodes
from objects import Namespace

POD_VARIABLE = "PREFECT_TPU_POD_VENV"
CLONE = Path(__file__).resolve().parents[2]
PREFIX = "prefect-tpu-cluster-"  # of a session's folder; its process follows
PATIENCE = 180.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster of the session."""

    plane: ControlPlane
    kubelet: ProcessKubelet

    @property
    def api(self) -> Api:
        """As administrator."""
        return self.plane.api

    @property
    def kubeconfig(self) -> Path:
        """As administrator, for other clients."""
        return self.plane.kubeconfig

    def add_slice(self, accelerator: str, pool: str) -> list[str]:
        """The nodes of one slice, ready for pods; their names."""
        return self._ready(self.kubelet.add_nodes(slice_nodes(accelerator, pool)))

    def add_cpus(self, pool: str, count: int = 1) -> list[str]:
        """Nodes without accelerators, ready for pods; their names."""
        return self._ready(self.kubelet.add_nodes(cpu_nodes(pool, count)))

    def delete_nodes(self, *names: str) -> None:
        """Hosts and nodes are gone; those that are gone already do not matter."""
        self.kubelet.delete_nodes(*names)

    @contextmanager
    def namespace(self, name: str) -> Iterator[Namespace]:
        """A namespace of this name, for as long as it is wanted."""
        self.make_namespace(name)
        yield Namespace(self.api, name)
        self.delete_namespace(name)

    def make_namespace(self, name: str) -> None:
        """A namespace in which pods can be made; one of this name that is ending still is waited for."""
        _until(lambda: not self._is_ending(name), f"the end of an earlier {name}")
        self.api.apply(f"/api/v1/namespaces/{name}", {"apiVersion": "v1", "kind": "Namespace"} | _named(name))
        # Without its account no pod is admitted, without the certificate none is started.
        for part in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            _until(partial(self.api.get, f"/api/v1/namespaces/{name}/{part}"), f"{part} of {name}")

    def delete_namespace(self, name: str) -> None:
        """Everything in a namespace is deleted, its pods before this returns; the rest of it Kubernetes does alone."""
        pods = f"/api/v1/namespaces/{name}/pods"
        self.api.delete(f"/api/v1/namespaces/{name}")  # from now on nothing is made in it
        self.api.delete(pods, None, gracePeriodSeconds=0)
        _until(lambda: not self.api.get(pods)["items"], f"the end of the pods of {name}")

    def _is_ending(self, name: str) -> bool:
        listed = self.api.get("/api/v1/namespaces")["items"]
        return any(one["metadata"]["name"] == name and "deletionTimestamp" in one["metadata"] for one in listed)

    def _ready(self, names: list[str]) -> list[str]:
        _until(lambda: all(self._is_schedulable(name) for name in names), f"nodes {', '.join(names)}")
        return names

    def _is_schedulable(self, name: str) -> bool:
        taints = self.api.get(f"/api/v1/nodes/{name}")["spec"].get("taints", [])
        return not any(one["key"].startswith("node.kubernetes.io/") for one in taints)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A control plane and a kubelet; all their processes are gone afterwards."""
    images = {"pod-python": python_image(_pod_venv()), "system": Image()}
    with ControlPlane(build.ready(), folder) as plane, ProcessKubelet(plane, images) as kubelet:
        cluster = Cluster(plane=plane, kubelet=kubelet)
        # As every cluster has one; and while all nodes of a zone are lost, Kubernetes gives no pod up.
        cluster.add_cpus("default-pool")
        yield cluster


def sweep(place: Path | None) -> None:
    """Remove what sessions that were killed have left in memory."""
    for folder in place.glob(f"{PREFIX}*-*") if place else []:
        if not Path("/proc", folder.name.removeprefix(PREFIX).partition("-")[0]).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _pod_venv() -> Path:
    found = Path(os.environ.get(POD_VARIABLE) or CLONE / ".venv-pod")
    if not (found / "pyvenv.cfg").exists():
        raise FileNotFoundError(f"The Python environment of pods is not there ({found}): run `make setup-pod`.")
    return found


def _named(name: str) -> dict[str, dict[str, str]]:
    return {"metadata": {"name": name}}


def _until(look: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if look():
                return
        except ApiError as error:
            if error.status != 404:
                raise
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {PATIENCE:.0f} s")
        time.sleep(LOOK_SECONDS)
