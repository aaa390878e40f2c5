"""Where objects lie, and of what type a manifest is."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.resources import JOBSETS, KNOWN, NODES, PODS, WORKLOADS, Resource, resource_of


@pytest.mark.parametrize(
    ("resource", "parts", "path"),
    [
        (PODS, (None,), "/api/v1/pods"),
        (PODS, ("research", "a", "log"), "/api/v1/namespaces/research/pods/a/log"),
        (NODES, ("ignored", "n"), "/api/v1/nodes/n"),
        (JOBSETS, ("x/y",), "/apis/jobset.x-k8s.io/v1alpha2/namespaces/x%2Fy/jobsets"),
        (WORKLOADS.only("v1beta1"), ("r",), "/apis/kueue.x-k8s.io/v1beta1/namespaces/r/workloads"),
    ],
)
def test_addresses(resource: Resource, parts: tuple[str, ...], path: str) -> None:
    assert resource.path(*parts) == path


@pytest.mark.parametrize("resource", KNOWN, ids=lambda resource: resource.kind)
def test_a_manifest_is_of_the_type_and_version_it_says(resource: Resource) -> None:
    for version in resource.versions:
        only = resource.only(version)
        assert resource_of({"kind": resource.kind, "apiVersion": only.api_version}) == only


def test_a_manifest_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(UsageError, match=r"JobSet \(jobset.x-k8s.io/v1alpha2\)"):
        resource_of({"kind": "JobSet", "apiVersion": "jobset.x-k8s.io/v1alpha1"})
