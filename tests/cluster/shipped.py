"""What deployments/gke ships, applied as `kubectl apply -k` applies it, in a namespace of this control plane.

And what it lets whom do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from cluster import CLONE, Cluster

from prefect_tpu.infra.gcp.permissions import Grant

GKE = CLONE / "deployments/gke"
NAMESPACE = "ml"  # that the files name
GOOGLE = "prefect-tpu-{}@my-project.iam.gserviceaccount.com"
PATHS = {
    "Namespace": ("/api/v1", "namespaces"),
    "ServiceAccount": ("/api/v1", "serviceaccounts"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "CronJob": ("/apis/batch/v1", "cronjobs"),
    "Deployment": ("/apis/apps/v1", "deployments"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "ResourceFlavor": ("/apis/kueue.x-k8s.io/v1beta2", "resourceflavors"),
    "ClusterQueue": ("/apis/kueue.x-k8s.io/v1beta2", "clusterqueues"),
    "LocalQueue": ("/apis/kueue.x-k8s.io/v1beta2", "localqueues"),
}
OF_THE_CLUSTER = {"Namespace", "ClusterRole", "ClusterRoleBinding", "ResourceFlavor", "ClusterQueue"}


def kustomization() -> dict[str, Any]:
    """What `kubectl apply -k` is told."""
    found: dict[str, Any] = yaml.safe_load((GKE / "kustomization.yaml").read_text())
    return found


def documents(file: str, namespace: str = NAMESPACE) -> Iterator[dict[str, Any]]:
    """The objects of a file, for a namespace of this name."""
    text = (GKE / file).read_text()
    yield from yaml.safe_load_all(re.sub(rf": {NAMESPACE}$", f": {namespace}", text, flags=re.MULTILINE))


def path_of(document: dict[str, Any], namespace: str) -> str:
    """Where an object is."""
    root, plural = PATHS[document["kind"]]
    where = "" if document["kind"] in OF_THE_CLUSTER else f"/namespaces/{namespace}"
    return f"{root}{where}/{plural}/{document['metadata']['name']}"


def apply(cluster: Cluster, namespace: str, *files: str) -> None:
    """The objects of these files."""
    for document in (one for file in files for one in documents(file, namespace)):
        cluster.api.apply(path_of(document, namespace), document)


def apply_all(cluster: Cluster, namespace: str) -> None:
    """As `kubectl apply -k deployments/gke`: patches are another manager's share of the same objects."""
    told = kustomization()
    apply(cluster, namespace, *told["resources"])
    for document in (one for patch in told["patches"] for one in documents(patch["path"], namespace)):
        cluster.api.apply(path_of(document, namespace), document, manager="patches")


def clean_up(cluster: Cluster, namespace: str, *files: str) -> None:
    """What does not go with the namespace, the users of things before the things."""
    for document in reversed([one for file in files for one in documents(file, namespace)]):
        if document["kind"] in OF_THE_CLUSTER - {"Namespace"}:
            cluster.api.delete(path_of(document, namespace))


def folders() -> tuple[Path, ...]:
    """What an image with our package shows of this machine."""
    return (CLONE,)


def may(cluster: Cluster, user: str, namespace: str | None, grant: Grant) -> set[str]:
    """Which verbs of a grant somebody has."""
    asked = {"group": grant.resource.group, "resource": grant.resource.plural, "subresource": grant.part or ""}
    return {verb for verb in grant.verbs if _is_allowed(cluster, user, {**asked, "verb": verb}, namespace)}


def _is_allowed(cluster: Cluster, user: str, asked: dict[str, Any], namespace: str | None) -> bool:
    where = {"namespace": namespace} if namespace else {}
    spec = {"user": user, "resourceAttributes": {**asked, **where}}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(cluster.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"]["allowed"])


def both_names(account: str, namespace: str) -> tuple[str, str]:
    """Of an account: in the cluster, and as Google vouches for it."""
    return f"system:serviceaccount:{namespace}:prefect-tpu-{account}", GOOGLE.format(account)
