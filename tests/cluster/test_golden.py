"""Every golden manifest is taken by the API server and JobSet's webhooks, as it is and as what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from cluster import Cluster

from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from tests.infra.gcp import golden_pathways
from tests.infra.gcp.golden_plans import GOLDEN, objects

pytestmark = pytest.mark.cluster


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the Kubernetes library knows no other


@pytest.fixture(scope="module", autouse=True)
def what_manifests_name(cluster: Cluster) -> None:
    """The namespace and the classes that golden manifests name: a dry run finds them missing too."""
    cluster.make_namespace("research")
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    cluster.api.apply("/apis/scheduling.k8s.io/v1/priorityclasses/high", high)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
    cluster.api.apply("/api/v1/namespaces/research/serviceaccounts/trainer", account)


@pytest.mark.anyio
async def test_every_golden_manifest_is_taken(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    async with Kubernetes() as client:
        every = {name: objects(golden) for name, golden in GOLDEN.items()}
        pathways = golden_pathways.GOLDEN.items()
        every |= {f"pathways {name}": golden_pathways.objects(golden) for name, golden in pathways}
        for name, made in every.items():
            config_map, jobset = made
            await client.dry_run(config_map)
            taken = await client.dry_run(jobset)
            assert said_of(jobset, taken) == jobset, name  # nothing was dropped as unknown, nothing changed
            for becomes in what_becomes_of(jobset):
                taken = await client.dry_run(becomes)
                assert said_of(becomes, taken) == becomes, name


@pytest.mark.anyio
async def test_kueue_holds_what_is_sent_to_a_queue(kueue: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kueue.kubeconfig))
    async with Kubernetes() as client:
        for name in ("kueue", "v6e"):
            taken = await client.dry_run(objects(GOLDEN[name])[-1])
            assert taken["spec"].get("suspend", False) == (name == "kueue"), name
        taken = await client.dry_run(golden_pathways.objects(golden_pathways.GOLDEN["kueue"])[-1])
        assert taken["spec"].get("suspend")


def what_becomes_of(jobset: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The Job of a slice and the pod of a host, as their controllers make them: JobSet's schema is less strict."""
    for replicated in jobset["spec"]["replicatedJobs"]:
        yield from _job_and_pod(jobset, replicated)


def _job_and_pod(jobset: dict[str, Any], replicated: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    namespace, name = jobset["metadata"]["namespace"], f"{jobset['metadata']['name']}-{replicated['name']}-0"
    job = {"apiVersion": "batch/v1", "kind": "Job", **replicated["template"]}
    template = job["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": f"{name}-0"}}
    return (
        {**job, "metadata": {**job["metadata"], "name": name, "namespace": namespace}},
        {**pod, "metadata": {**pod["metadata"], "namespace": namespace}},
    )


def said_of(sent: Any, taken: Any) -> Any:
    """What the server keeps of what was sent: its own defaults and additions left out."""
    if isinstance(sent, Mapping):
        return {name: said_of(value, taken.get(name)) for name, value in sent.items() if name in taken}
    if isinstance(sent, list):
        return [said_of(one, other) for one, other in zip(sent, taken, strict=False)]
    return taken
