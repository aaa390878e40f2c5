"""The rights that the worker's role gives are enough to keep a run's secret, and none of them is too much."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from cluster import Cluster

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.gcp import permissions
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.permissions import WORKING, Permission
from prefect_tpu.infra.gcp.run_secrets import ensure_secret, remove_secret, secret, secret_name

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

JOB, FOLDER, LASTING = "t-0123456789ab", "gs://bucket/jobs/t-0123456789ab", "region-key"
Rights = Callable[[str, Sequence[Mapping[str, Any]]], Path]


async def live(namespace: str) -> None:
    """A secret is made, brought up to date and removed, as for a run that was submitted twice."""
    async with Kubernetes(None) as cluster:
        for key in ("first", "second"):
            wanted = secret(JOB, FOLDER, namespace, {"PREFECT_API_KEY": key, LASTING: key}, lifetime=60)
            await ensure_secret(cluster, wanted, LASTING)
        assert await remove_secret(cluster, JOB, FOLDER, namespace)
        assert not await remove_secret(cluster, JOB, FOLDER, namespace)


def test_the_role_is_enough(
    kubeconfig_for: Rights, cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_for("whole", permissions.rules(WORKING))))
    anyio.run(live, namespace)
    assert [one["metadata"]["name"] for one in secrets(cluster, namespace)] == []


@pytest.mark.parametrize("missing", permissions.permissions(WORKING), ids=str)
def test_without_a_verb_it_is_told_which(
    missing: Permission, kubeconfig_for: Rights, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = re.sub("[^a-z0-9]+", "-", f"no {missing}")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_for(name, rules_without(missing))))
    with pytest.raises(PlatformError) as refused:
        anyio.run(live, namespace)
    assert f'cannot {missing.verb} resource "secrets"' in str(refused.value)
    assert secret_name(JOB) in str(refused.value) or missing.verb == "create"


def rules_without(missing: Permission) -> list[dict[str, Any]]:
    (whole,) = WORKING
    return permissions.rules([replace(whole, verbs=tuple(verb for verb in whole.verbs if verb != missing.verb))])


def secrets(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.api.get(f"/api/v1/namespaces/{namespace}/secrets")["items"]
    return found
