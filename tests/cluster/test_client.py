"""The client against a real API server: what it says of types, names, permissions, versions and logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from objects import Object, jobset, pod

from prefect_tpu.infra.gcp.errors import Conflict, Forbidden, NotFound, Refused, Unauthorized
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.lists import list_all
from prefect_tpu.infra.gcp.pod_logs import LogQuery
from prefect_tpu.infra.gcp.resources import CONFIG_MAPS, JOBSETS, PODS, WORKLOADS, Selection
from prefect_tpu.infra.gcp.watches import Snapshot

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]
OWNER = ("job",)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def client(
    cluster: Cluster, anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Kubernetes, None]:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    async with Kubernetes() as client:
        yield client


def config_map(namespace: str, name: str, job: str = "digits", **metadata: Any) -> Object:
    labels = {"job": job}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata},
        "data": {"key": "value"},
    }


async def test_an_object_is_made_adopted_changed_and_deleted_once(client: Kubernetes, namespace: str) -> None:
    manifest = config_map(namespace, "mine")
    made = await client.create_or_adopt(manifest, OWNER)
    assert await client.create_or_adopt(manifest, OWNER) == made
    with pytest.raises(Conflict, match="belongs to job='digits'"):
        await client.create_or_adopt(config_map(namespace, "mine", job="letters"), OWNER)
    changed = await client.patch(CONFIG_MAPS, "mine", namespace, {"data": {"key": "other"}})
    assert changed["data"] == {"key": "other"}
    assert not await client.delete(CONFIG_MAPS, "mine", namespace, uid="another")
    assert await client.delete(CONFIG_MAPS, "mine", namespace)
    assert not await client.delete(CONFIG_MAPS, "mine", namespace)
    assert await client.find(CONFIG_MAPS, "mine", namespace) is None


async def test_what_is_missing_is_named(client: Kubernetes, namespace: str) -> None:
    with pytest.raises(NotFound, match="it is not there") as caught:
        await client.get(PODS, "nobody", namespace)
    assert not caught.value.is_type
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await client.create(config_map("nowhere", "mine"))


async def test_a_type_that_is_not_served_is_named(client: Kubernetes, namespace: str) -> None:
    with pytest.raises(NotFound) as caught:
        await client.get(JOBSETS.only("v9"), "x", namespace)
    assert caught.value.is_type


async def test_a_dry_run_passes_the_webhooks_and_makes_nothing(client: Kubernetes, namespace: str) -> None:
    manifest = jobset("digits-1", "pool", 4, "python")
    manifest["metadata"]["namespace"] = namespace
    seen = await client.dry_run(manifest)
    assert seen["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert await client.find(JOBSETS, "digits-1", namespace) is None


async def test_what_webhook_and_schema_refuse_is_passed_on(client: Kubernetes, namespace: str) -> None:
    too_long = jobset("x" * 60, "pool", 4, "python")
    too_long["metadata"]["namespace"] = namespace
    with pytest.raises(Refused, match="vjobset.kb.io"):
        await client.dry_run(too_long)
    with pytest.raises(Refused, match="Invalid value"):
        await client.create(config_map(namespace, "Not_a_name"))


async def test_a_quota_that_is_used_up_is_a_refusal(client: Kubernetes, cluster: Cluster, namespace: str) -> None:
    quotas, none = f"/api/v1/namespaces/{namespace}/resourcequotas", {"count/jobsets.jobset.x-k8s.io": "0"}
    cluster.api.post(quotas, {"metadata": {"name": "none"}, "spec": {"hard": none}})
    # As the controller of quotas would do, which the control plane of the tests does without.
    cluster.api.patch(f"{quotas}/none/status", {"status": {"hard": none, "used": none}})
    manifest = jobset("digits-1", "pool", 4, "python")
    manifest["metadata"]["namespace"] = namespace
    with pytest.raises(Refused, match="exceeded quota") as caught:
        await client.create(manifest)
    assert caught.value.is_quota


async def test_a_missing_permission_is_named(
    namespace: str, kubeconfig_for: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig_for("reader", rules)))
    async with Kubernetes() as client:
        assert await client.may("get", PODS, namespace)
        assert not await client.may("create", JOBSETS, namespace)
        with pytest.raises(Forbidden, match=f"kubectl auth can-i list pods --namespace {namespace}"):
            await client.list_all(Selection(resource=PODS, namespace=namespace))


async def test_credentials_that_are_not_accepted_are_said(
    cluster: Cluster, tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = tmp_path / "kubeconfig"
    lines = cluster.kubeconfig.read_text().splitlines(keepends=True)
    stranger.write_text(
        "".join(line.split("token:")[0] + "token: wrong\n" if "token:" in line else line for line in lines)
    )
    monkeypatch.setenv("KUBECONFIG", str(stranger))
    async with Kubernetes() as client:
        with pytest.raises(Unauthorized):
            await client.get(PODS, "x", namespace)


async def test_pages_are_one_list(client: Kubernetes, namespace: str) -> None:
    wanted = [f"n{number}" for number in range(5)]
    for name in wanted:
        await client.create(config_map(namespace, name))
    selection = Selection(resource=CONFIG_MAPS, namespace=namespace, labels="job=digits")
    listing = await list_all(client._open, selection, page=2)
    assert [found["metadata"]["name"] for found in listing.objects] == wanted
    assert await client.list_all(selection) == listing.objects


async def test_a_watch_tells_what_comes_changes_and_goes(client: Kubernetes, namespace: str) -> None:
    kept = Selection(resource=CONFIG_MAPS, namespace=namespace, labels="job=digits")
    snapshots = client.watch(kept)

    async def until_seen(is_it: Callable[[Snapshot], object]) -> Snapshot:
        async for snapshot in snapshots:
            if is_it(snapshot):
                return snapshot
        raise AssertionError("the watch ended")

    async with aclosing(snapshots):
        assert (await until_seen(lambda snapshot: True)).objects == ()
        await client.create(config_map(namespace, "a"))
        await client.create(config_map(namespace, "b"))
        await until_seen(lambda snapshot: len(snapshot.objects) == 2)
        await client.patch(CONFIG_MAPS, "a", namespace, {"data": {"key": "last"}})
        await client.delete(CONFIG_MAPS, "a", namespace)
        last = await until_seen(lambda snapshot: snapshot.gone)
        assert [found["data"] for found in last.gone] == [{"key": "last"}]
        assert [found["metadata"]["name"] for found in last.objects] == ["b"]


async def test_a_log_is_followed_to_its_end_and_read_afterwards(
    client: Kubernetes, cluster: Cluster, namespace: str
) -> None:
    cluster.add_cpus("client-logs")
    talker = pod("talker", "sh", "-c", "echo one; sleep 1; echo two; echo three")
    talker["metadata"]["namespace"] = namespace
    await client.create(talker)
    await _started(client, namespace, "talker")
    lines = [line async for line in client.logs(namespace, "talker", LogQuery(follow=True))]
    assert lines == ["one", "two", "three"]
    assert [line async for line in client.logs(namespace, "talker", LogQuery(tail=1))] == ["three"]


async def _started(client: Kubernetes, namespace: str, name: str) -> None:
    selection = Selection(resource=PODS, namespace=namespace, fields=f"metadata.name={name}")
    async with aclosing(client.watch(selection)) as snapshots:
        async for snapshot in snapshots:
            if any(found.get("status", {}).get("phase") != "Pending" for found in snapshot.objects):
                return


async def test_the_version_of_kueue_that_is_served_is_found(
    kueue: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kueue.kubeconfig))
    async with Kubernetes() as client:
        assert (await client.served(WORKLOADS)).versions[0] in WORKLOADS.versions
        assert await client.list_all(Selection(resource=WORKLOADS, namespace=namespace)) == ()
