"""A Kueue queue in a namespace, with room for one slice of sixteen chips."""

from __future__ import annotations

from typing import Any

from cluster import Cluster

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = "team"
ROOM = {"google.com/tpu": 16, "cpu": "2000", "memory": "12000Gi"}


def make_queue(cluster: Cluster, namespace: str) -> None:
    """Its cluster-wide parts are called as the namespace."""
    quotas = [{"name": name, "nominalQuota": quota} for name, quota in ROOM.items()]
    group = {"coveredResources": list(ROOM), "flavors": [{"name": namespace, "resources": quotas}]}
    cluster.api.apply(f"{KUEUE}/resourceflavors/{namespace}", _made("ResourceFlavor", namespace, {}))
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    cluster.api.apply(f"{KUEUE}/clusterqueues/{namespace}", _made("ClusterQueue", namespace, spec))
    local = _made("LocalQueue", QUEUE, {"clusterQueue": namespace})
    cluster.api.apply(f"{KUEUE}/namespaces/{namespace}/localqueues/{QUEUE}", local)


def _made(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
