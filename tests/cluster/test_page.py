"""The page on GKE does what it says, on this control plane, with the rights that its own manifests give."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import yaml
from cluster import Cluster
from control_plane import users
from gcs import Gcs

sys.path.append(str(Path(__file__).parents[1] / "docs"))  # tests are no package

from page_blocks import blocks  # noqa: E402
from reader import ROOT, Reader  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

PAGE = ROOT / "docs/how-to/gke.md"
NAMESPACE, IMAGE, BUCKET, CONTEXT = "ml", "python:3.12", "my-bucket", "my-cluster"
PLURALS = {
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
}


def apply(cluster: Cluster, file: str) -> None:
    """As `kubectl apply --namespace` does."""
    for document in yaml.safe_load_all((ROOT / "deployments" / file).read_text()):
        version, kind = document["apiVersion"], document["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        where = "" if kind == "ClusterRole" else f"/namespaces/{NAMESPACE}"
        cluster.api.apply(f"{root}{where}/{PLURALS[kind]}/{document['metadata']['name']}", document)


def bind_viewer(cluster: Cluster) -> None:
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


def kubeconfig(cluster: Cluster, path: Path) -> Path:
    """The driver's own, with the page's name of the cluster."""
    path.parent.mkdir(parents=True)
    token = users.token_of(cluster.api, NAMESPACE, "prefect-tpu-driver")
    written = yaml.safe_load(users.write_kubeconfig(path, cluster.plane.server, token, NAMESPACE).read_text())
    written["contexts"][0]["name"] = CONTEXT
    path.write_text(yaml.safe_dump({**written, "current-context": CONTEXT}))
    return path


@pytest.fixture
def administered(
    cluster: Cluster, gcs: Gcs, bucket: str, fresh_pool: Callable[[str], list[str]], tmp_path: Path
) -> Iterator[Cluster]:
    """What the page's first section makes."""
    body = json.dumps({"name": BUCKET}).encode()
    head = {"Content-Type": "application/json"}
    urlopen(Request(f"{gcs.url}/storage/v1/b?project=test", body, head), timeout=20).close()
    python = cluster.kubelet.images.pull("pod-python", "IfNotPresent")
    cluster.kubelet.images.add(IMAGE, replace(python, environment=gcs.environment))
    fresh_pool("v6e-16")
    with cluster.namespace(NAMESPACE):
        apply(cluster, "rbac.yaml")
        apply(cluster, "rbac-cluster.yaml")
        bind_viewer(cluster)
        yield cluster


def test_a_newcomer_who_follows_the_page(administered: Cluster, gcs: Gcs, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.environment |= gcs.environment
        reader.environment["KUBECONFIG"] = str(kubeconfig(administered, reader.home / ".kube/config"))
        for block in blocks(PAGE):
            went_wrong = reader.follow(block)
            assert not went_wrong, f"{PAGE.name}:{block.line} {went_wrong}"
        reader.close()
        assert not reader.left()
