"""The rights that the shipped manifests give, in a namespace of a test."""

from __future__ import annotations

import shipped
from cluster import Cluster

DRIVER, HOST, WORKER = "prefect-tpu-driver", "prefect-tpu-host", "prefect-tpu-worker"
RBAC = "rbac.authorization.k8s.io"


def grant(cluster: Cluster, namespace: str) -> None:
    """As an administrator does for a namespace in which jobs are to run: both files, and the binding beside them."""
    shipped.apply(cluster, namespace, "rbac.yaml", "rbac-cluster.yaml")
    _let_look(cluster, namespace, DRIVER)


def grant_worker(cluster: Cluster, namespace: str) -> None:
    """The same for the worker of a pool; the file is that of its pods, of which none is made."""
    grant(cluster, namespace)
    for document in shipped.documents("worker.yaml", namespace):
        if document["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
            cluster.api.apply(shipped.path_of(document, namespace), document)
    _let_look(cluster, namespace, WORKER)


def _let_look(cluster: Cluster, namespace: str, account: str) -> None:
    """Bindings of the cluster have one name each, whatever namespace they are for."""
    name = f"{account}-{namespace}"
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "prefect-tpu-viewer"}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name}}
    path = f"/apis/{RBAC}/v1/clusterrolebindings/{name}"
    cluster.api.apply(path, {**binding, "roleRef": role, "subjects": [subject]})
