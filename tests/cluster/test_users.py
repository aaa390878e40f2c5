"""Several users of one cluster: what a service account may do is what its Role says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from cluster import Cluster
from control_plane import ApiError
from objects import pod

pytestmark = pytest.mark.cluster

READER = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]


def test_a_kubeconfig_may_do_what_its_rules_allow_and_nothing_else(
    cluster: Cluster, namespace: str, kubeconfig_for: Callable[..., Path]
) -> None:
    written = yaml.safe_load(kubeconfig_for("reader", READER).read_text())
    assert written["contexts"][0]["context"]["namespace"] == namespace
    api = cluster.plane.api_of(written["users"][0]["user"]["token"])
    pods = f"/api/v1/namespaces/{namespace}/pods"
    assert api.get(pods)["items"] == []
    with pytest.raises(
        ApiError, match=f'User "system:serviceaccount:{namespace}:reader" cannot create resource "pods"'
    ):
        api.post(pods, pod("forbidden", "true"))
    with pytest.raises(ApiError, match="Forbidden"):
        api.get("/api/v1/namespaces/default/pods")


def test_a_kubeconfig_is_for_its_owners_eyes(kubeconfig_for: Callable[..., Path]) -> None:
    assert kubeconfig_for("reader", READER).stat().st_mode & 0o077 == 0
