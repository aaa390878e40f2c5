"""Kueue beside the rest: a queue with room for one slice lets one JobSet in and keeps the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from cluster import Cluster
from control_plane import Object
from objects import JOBSETS, Namespace, jobset

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.jobset_queue_quota import queue_rulings
from prefect_tpu.infra.backends.jobset_quota_question import QuotaQuestion

pytestmark = pytest.mark.cluster

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
STAY = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done")


def _made(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def queue(kueue: Cluster, namespace: str) -> Iterator[str]:
    """A queue of the test's namespace, with 16 chips."""
    api = kueue.api
    quota = {"name": "any", "resources": [{"name": "google.com/tpu", "nominalQuota": 16}]}
    group = {"coveredResources": ["google.com/tpu"], "flavors": [quota]}
    api.apply(f"{KUEUE}/resourceflavors/any", _made("ResourceFlavor", "any", {}))
    cluster_queue = _made("ClusterQueue", "tpus", {"namespaceSelector": {}, "resourceGroups": [group]})
    api.apply(f"{KUEUE}/clusterqueues/tpus", cluster_queue)
    local = _made("LocalQueue", "team", {"clusterQueue": "tpus"})
    api.apply(f"{KUEUE}/namespaces/{namespace}/localqueues/team", local)
    yield "team"
    api.delete(f"{KUEUE}/clusterqueues/tpus")


def test_a_queue_lets_in_what_there_is_room_for(
    kueue: Cluster,
    queue: str,
    namespace: str,
    fresh_pool: Callable[..., list[str]],
    until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kueue.kubeconfig))
    until(lambda: "has 16 of 16 (0 used)" in _quota(namespace), "room in the queue")
    here = Namespace(kueue.api, namespace)
    nodes = fresh_pool("v6e-16")
    pool = kueue.kubelet.nodes.labels(nodes[0])["cloud.google.com/gke-nodepool"]
    for name in ("first", "second"):
        asked = jobset(name, pool, 4, *STAY)
        asked["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue}
        here.start(asked)
        until(lambda name=name: _told(here, name), f"a word on {name}")
    until(lambda: [one["status"].get("phase") for one in here.of("first")] == ["Running"] * 4, "the first JobSet")
    assert _told(here, "first") == ("QuotaReserved", "True")
    assert _told(here, "second") == ("QuotaReserved", "False")
    assert here.of("second") == []
    until(lambda: "has 0 of 16 (16 used)" in _quota(namespace), "a full queue")
    assert "needs 32 chips, the limit is 16" in _quota(namespace, "v6e-32")
    here.api.delete(f"{JOBSETS}/namespaces/{namespace}/jobsets/first")
    until(lambda: [one["status"].get("phase") for one in here.of("second")] == ["Running"] * 4, "the second JobSet")


def _quota(namespace: str, accelerator: str = "v6e-16") -> str:
    """What is said of the queue before a job is sent to it."""
    question = QuotaQuestion(shape=resolve(accelerator), namespace=namespace, queue="team")
    (found,) = anyio.run(queue_rulings, question)
    return found.said


def _told(here: Namespace, jobset: str) -> tuple[str, str] | None:
    """Whether the workload of a JobSet has its quota."""
    for workload in here.api.get(f"{KUEUE}/namespaces/{here.name}/workloads")["items"]:
        if workload["metadata"]["ownerReferences"][0]["name"] == jobset:
            for one in workload.get("status", {}).get("conditions", []):
                if one["type"] == "QuotaReserved":
                    return one["type"], one["status"]
    return None
