"""Two jobs want the only slice: one waits, says why, and runs next. Never does each have a part of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster
from control_plane import Api
from driven import Driving, Prepared, prepared

from prefect_tpu.infra.launcher.waiting import read_waiting
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOB_LABEL = "prefect-tpu/job"
HOSTS = 4
RELEASE = "release"  # a file of the jobs' folder: who has the slice ends when it is there


class Shares:
    """Which jobs had pods on nodes at the same time, as long as it is entered."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._path = api, f"/api/v1/namespaces/{namespace}/pods"
        self.seen: set[frozenset[str]] = set()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Shares:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def now(self) -> frozenset[str]:
        pods = self._api.get(self._path)["items"]
        living = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
        return frozenset(pod["metadata"]["labels"][JOB_LABEL] for pod in living if pod["spec"].get("nodeName"))

    def _look(self) -> None:
        while not self._is_over.wait(0.05):
            self.seen.add(self.now())


@pytest.fixture
def two_jobs(
    cluster: Cluster, namespace: str, fresh_pool: Callable[..., list[str]], machine: Any, monkeypatch: Any
) -> Callable[..., list[Prepared]]:
    """Two jobs for the four hosts of one pool, which run until they are released."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    pool = cluster.kubelet.nodes.labels(fresh_pool("v6e-16")[0])["cloud.google.com/gke-nodepool"]
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))

    def make(**pods: Any) -> list[Prepared]:
        settings = PodSettings(
            image="pod-python",
            python="python",
            namespace=namespace,
            cpu=None if pods else "100m",
            memory=None if pods else "500Mi",
            volumes={str(machine.output): f"gs://{namespace}"},
            node_selector={"cloud.google.com/gke-nodepool": pool},
            **pods,
        )
        return [_job(name, str(machine.output), settings) for name in ("one", "two")]

    return make


def _job(name: str, output: str, pods: PodSettings) -> Prepared:
    return prepared(
        Request(
            name=name,
            program="sh",
            arguments=("-c", f"until [ -e {output}/{RELEASE} ]; do sleep 0.1; done"),
            accelerators=("v6e-16",),
            output=output,
            settings={"backend": "jobset", "pods": pods, "grace": 2.0, "stall_timeout": None},
        )
    )


@pytest.fixture
def queue(kueue: Cluster, namespace: str) -> Iterator[str]:
    """A queue of the namespace, with the chips of one slice."""
    api, name = kueue.api, f"of-{namespace}"
    quota = {"name": name, "resources": [{"name": "google.com/tpu", "nominalQuota": 16}]}
    groups = [{"coveredResources": ["google.com/tpu"], "flavors": [quota]}]
    api.apply(f"{KUEUE}/resourceflavors/{name}", _made("ResourceFlavor", name, {}))
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    api.apply(f"{KUEUE}/clusterqueues/{name}", _made("ClusterQueue", name, spec))
    api.apply(f"{KUEUE}/namespaces/{namespace}/localqueues/team", _made("LocalQueue", "team", {"clusterQueue": name}))
    yield "team"
    api.delete(f"{KUEUE}/clusterqueues/{name}")


def _made(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def test_on_a_slice_of_the_cluster(cluster, namespace, two_jobs, until, machine):
    waits = _one_after_the_other(cluster, namespace, two_jobs(), until, machine, "is used by job")
    assert waits.startswith("no slice is free: of the nodes of this kind"), waits


def test_in_a_queue(kueue, namespace, queue, two_jobs, until, machine):
    waits = _one_after_the_other(kueue, namespace, two_jobs(queue=queue), until, machine, "google.com/tpu")
    assert waits.startswith("in Kueue's queue team"), waits


def _one_after_the_other(
    cluster: Cluster, namespace: str, jobs: list[Prepared], until: Any, machine: Any, word: str
) -> str:
    """Both at once; what the one that had to wait said of it, once it has come to this word."""
    with Shares(cluster.api, namespace) as shares:
        driving = {job.job.name: Driving(job) for job in jobs}
        try:
            until(lambda: _running(cluster, namespace) == HOSTS, "the hosts of one job")
            (first,) = shares.now()
            (waiting,) = (job for job in jobs if job.job.name != first)
            said = str(until(lambda: _explained(waiting, word), f"why {waiting.job.name!r} waits"))
        finally:
            (machine.output / RELEASE).touch()
            results = [one.result() for one in driving.values()]
    assert [result.state for result in results] == ["succeeded"] * 2
    assert [len(result.attempts) for result in results] == [1, 1], "nobody lost the slice to the other one"
    assert shares.seen <= {frozenset(), frozenset({"one"}), frozenset({"two"})}
    assert {frozenset({"one"}), frozenset({"two"})} <= shares.seen
    return said


def _running(cluster: Cluster, namespace: str) -> int:
    pods = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return sum(1 for pod in pods if pod["status"].get("phase") == "Running")


def _explained(job: Prepared, word: str) -> str | None:
    said = read_waiting(job.storage, 1)
    return said if said and word in said else None
