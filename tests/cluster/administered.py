"""What docs/how-to/gke.md has an administrator make, on this control plane: a namespace, its rights, a bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import yaml
from cluster import CLONE, Cluster
from control_plane import users
from gcs import Gcs

NAMESPACE, IMAGES, BUCKET, CONTEXT = "ml", ("python:3.12", "my-image"), "my-bucket", "my-cluster"
PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
}


@contextmanager
def administered(cluster: Cluster, gcs: Gcs) -> Iterator[Cluster]:
    """What the page's first section makes; the namespace is gone afterwards, nodes are the caller's."""
    body = json.dumps({"name": BUCKET}).encode()
    head = {"Content-Type": "application/json"}
    urlopen(Request(f"{gcs.url}/storage/v1/b?project=test", body, head), timeout=20).close()
    python = cluster.kubelet.images.pull("pod-python", "IfNotPresent")
    for image in IMAGES:
        cluster.kubelet.images.add(image, replace(python, environment=gcs.environment))
    with cluster.namespace(NAMESPACE):
        _apply(cluster, "rbac.yaml")
        _apply(cluster, "rbac-cluster.yaml")
        _bind_viewer(cluster)
        yield cluster


def write_kubeconfig(cluster: Cluster, path: Path) -> Path:
    """The driver's own, with the page's name of the cluster."""
    path.parent.mkdir(parents=True, exist_ok=True)
    token = users.token_of(cluster.api, NAMESPACE, "prefect-tpu-driver")
    written = yaml.safe_load(users.write_kubeconfig(path, cluster.plane.server, token, NAMESPACE).read_text())
    written["contexts"][0]["name"] = CONTEXT
    path.write_text(yaml.safe_dump({**written, "current-context": CONTEXT}))
    return path


def _apply(cluster: Cluster, file: str) -> None:
    """As `kubectl apply --namespace` does."""
    for document in yaml.safe_load_all((CLONE / "deployments/gke" / file).read_text()):
        version, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        where = "" if kind == "ClusterRole" else f"/namespaces/{NAMESPACE}"
        cluster.api.apply(f"{root}{where}/{PLURALS[kind]}/{document['metadata']['name']}", document)


def _bind_viewer(cluster: Cluster) -> None:
    """As the page's `kubectl create clusterrolebinding` does."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "prefect-tpu-ml"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "prefect-tpu-viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "prefect-tpu-driver", "namespace": NAMESPACE}],
    }
    cluster.api.apply(f"/apis/{group}/v1/clusterrolebindings/prefect-tpu-ml", binding)
