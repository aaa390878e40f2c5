"""What happens to nodes, as a client of the API server sees it in nodes and pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import Cluster
from control_plane import Object
from objects import Namespace, pod

pytestmark = pytest.mark.cluster

SAVE = "trap 'echo saving; exit 81' TERM; echo up; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo up; while :; do sleep 0.05; done"
NODES = ("spot", "stubborn", "shut", "maintained", "silent", "crashed", "deleted", "returned")


@pytest.fixture(scope="module")
def here(cluster: Cluster, until: Callable[..., Any]) -> Iterator[Namespace]:
    """A pod on each of the nodes, bound to it."""
    nodes = [name for pool in NODES for name in cluster.add_cpus(f"nodes-{pool}")]
    with cluster.namespace("nodes") as made:
        for name in NODES:
            made.make(_on(name, name, DEAF if name == "stubborn" else SAVE))
        for name in NODES:
            until(lambda name=name: "up" in made.log(name) if "running" in made.state(name) else "", f"pod {name}")
        cluster.kubelet.delete_nodes(_node("deleted"))  # first: it takes Kubernetes longest
        cluster.kubelet.silence(_node("silent"))
        yield made
    cluster.delete_nodes(*nodes)


def _node(name: str) -> str:
    return f"gke-cpu-nodes-{name}-0"


def _on(name: str, node: str, script: str) -> Object:
    return pod(name, "sh", "-c", script, nodeName=_node(node), terminationGracePeriodSeconds=30)


def test_a_spot_node_that_is_reclaimed_lets_its_pods_save_and_is_gone(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    cluster.kubelet.reclaim_spot(_node("spot"))
    until(lambda: not _exists(cluster, "spot"), "the end of the node")
    last = _failed(here, "spot")
    assert last["reason"] == "Terminated"
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 81
    said = "Pod was terminated in response to imminent node shutdown."
    assert _disruption(last) == ("TerminationByKubelet", said)


def _exists(cluster: Cluster, name: str) -> bool:
    found = cluster.api.get("/api/v1/nodes", fieldSelector=f"metadata.name={_node(name)}")
    return bool(found["items"])


def _failed(here: Namespace, name: str, seconds: int = 30) -> Object:
    """The status with which a pod failed; the pod may be gone since."""
    for seen in here.changes(name, seconds):
        if seen["status"].get("phase") == "Failed":
            status: Object = seen["status"]
            return status
    raise AssertionError(f"{name} did not fail")


def _disruption(status: Object) -> tuple[str, str] | None:
    found = next((one for one in status["conditions"] if one["type"] == "DisruptionTarget"), None)
    return (found["reason"], found["message"]) if found else None


def test_pods_have_no_more_than_the_notice_whatever_their_grace(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    cluster.kubelet.shut_down(_node("stubborn"), seconds=1)
    until(lambda: here.is_over("stubborn"), "the end of a pod that does not listen")
    assert here.end("stubborn")["exitCode"] == 137


def test_a_node_that_shuts_down_takes_no_more_pods(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    cluster.kubelet.shut_down(_node("shut"))
    here.make(_on("too-late", "shut", "true"))
    until(lambda: here.is_over("too-late"), "the refusal")
    status = here.pod("too-late")["status"]
    assert (status["reason"], status["message"]) == ("NodeShutdown", "Pod was rejected as the node is shutting down.")
    node = cluster.api.get(f"/api/v1/nodes/{_node('shut')}")
    ready = next(one for one in node["status"]["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["message"]) == ("False", "node is shutting down")


def test_maintenance_is_told_by_labels_and_a_taint_before_the_node_goes(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    cluster.kubelet.announce_maintenance(_node("maintained"), at=1790000000.5)
    listed = cluster.api.get("/api/v1/nodes")["metadata"]["resourceVersion"]
    cluster.kubelet.maintain(_node("maintained"))
    until(lambda: not _exists(cluster, "maintained"), "the end of the node")
    seen = [
        event["object"]
        for event in _until_deleted(cluster, "maintained", listed)
        if "cloud.google.com/active-node-maintenance" in event["object"]["metadata"]["labels"]
    ]
    labels = seen[-1]["metadata"]["labels"]
    assert labels["cloud.google.com/active-node-maintenance"] == "ONGOING"
    assert labels["cloud.google.com/scheduled-maintenance-time"] == "1790000000"
    taints = [(one["key"], one["effect"]) for one in seen[-1]["spec"]["taints"]]
    assert ("cloud.google.com/impending-node-termination", "NoSchedule") in taints


def _until_deleted(cluster: Cluster, name: str, version: str) -> Iterator[Object]:
    for event in cluster.api.watch("/api/v1/nodes", version, seconds=30):
        if event["type"] != "BOOKMARK" and event["object"]["metadata"]["name"] == _node(name):
            yield event
            if event["type"] == "DELETED":
                return


def test_a_host_that_crashes_and_comes_back_has_lost_its_pods(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    cluster.kubelet.crash(_node("returned"))
    assert here.phase("returned") == "Running"
    cluster.kubelet.reconnect(_node("returned"))
    until(lambda: here.is_over("returned"), "the end of the pod that is lost")
    assert here.end("returned")["exitCode"] == 255


def test_a_pod_of_a_silent_host_goes_on_for_ever_and_ends_when_the_host_is_heard_again(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    until(lambda: "deletionTimestamp" in here.pod("silent")["metadata"], "Kubernetes to give the pod up")
    assert here.phase("silent") == "Running"
    told = "Taint manager: deleting due to NoExecute taint"
    assert _disruption(here.pod("silent")["status"]) == ("DeletionByTaintManager", told)
    taints = cluster.api.get(f"/api/v1/nodes/{_node('silent')}")["spec"]["taints"]
    assert "node.kubernetes.io/unreachable" in [one["key"] for one in taints]
    cluster.kubelet.reconnect(_node("silent"))
    until(lambda: not _is_there(here, "silent"), "the end of the pod")


def _is_there(here: Namespace, name: str) -> bool:
    return bool(here.api.get(here.pods, fieldSelector=f"metadata.name={name}")["items"])


def test_a_pod_waits_for_a_slice_until_its_nodes_are_added(
    here: Namespace, cluster: Cluster, until: Callable[..., Any]
) -> None:
    chips = {"resources": {"limits": {"google.com/tpu": "4"}}}
    asked = pod("waits", "true", container=chips, nodeSelector={"cloud.google.com/gke-nodepool": "nodes-late"})
    asked["spec"]["tolerations"] = [
        {"key": "google.com/tpu", "operator": "Exists"},
        {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true"},
    ]
    here.make(asked)
    until(lambda: (here.condition("waits", "PodScheduled") or {}).get("reason") == "Unschedulable", "its wait")
    nodes = cluster.add_slice("v6e-16:spot", pool="nodes-late")
    until(lambda: here.is_over("waits"), "the pod once there is a node")
    assert here.pod("waits")["spec"]["nodeName"] in nodes
    cluster.delete_nodes(*nodes)


def test_a_pod_of_a_node_that_was_deleted_fails_when_kubernetes_sweeps(here: Namespace) -> None:
    last = _failed(here, "deleted", seconds=150)
    assert _disruption(last) == ("DeletionByPodGC", "PodGC: node no longer exists")
    assert "running" in last["containerStatuses"][0]["state"]  # nobody has seen its end
