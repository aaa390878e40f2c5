"""The rights that the shipped manifests give, in a namespace of a test."""

from __future__ import annotations

from typing import Any

import yaml
from cluster import CLONE, Cluster

DRIVER, HOST = "prefect-tpu-driver", "prefect-tpu-host"
RBAC = "rbac.authorization.k8s.io"
PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
}


def grant(cluster: Cluster, namespace: str) -> None:
    """As an administrator does for a namespace in which jobs are to run: both files, and the binding beside them."""
    for file in ("rbac.yaml", "rbac-cluster.yaml"):
        for document in yaml.safe_load_all((CLONE / "deployments" / "gke" / file).read_text()):
            cluster.api.apply(_path(document, namespace), document)
    subject = {"kind": "ServiceAccount", "name": DRIVER, "namespace": namespace}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "prefect-tpu-viewer"}
    name = f"prefect-tpu-{namespace}"
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
    path = f"/apis/{RBAC}/v1/clusterrolebindings/{name}"
    cluster.api.apply(path, {**binding, "roleRef": role, "subjects": [subject]})


def _path(document: dict[str, Any], namespace: str) -> str:
    version, kind = document["apiVersion"], document["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    where = "" if kind == "ClusterRole" else f"/namespaces/{namespace}"
    return f"{root}{where}/{PLURALS[kind]}/{document['metadata']['name']}"
