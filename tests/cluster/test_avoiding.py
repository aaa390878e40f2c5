"""A pool that lost a host is avoided while another slice is free, whether a job is driven alone or with many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster
from objects import TPU_TOLERATION, Namespace, pod

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.jobset_avoiding import places_to_avoid
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.sharing import Shared

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]
POOL = "cloud.google.com/gke-nodepool"
SHAPE = "v6e-16"


@pytest.fixture
def here(cluster: Cluster, namespace: str) -> Namespace:
    return Namespace(cluster.api, namespace)


@pytest.mark.parametrize("is_shared", [False, True], ids=["alone", "with many"])
def test_only_while_another_slice_is_free(
    cluster: Cluster,
    here: Namespace,
    namespace: str,
    fresh_pool: Callable[..., list[str]],
    is_shared: bool,
    until: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    pools = [cluster.kubelet.nodes.labels(fresh_pool(SHAPE, ending)[0])[POOL] for ending in ("-lost", "-other")]
    team = {"team": namespace}  # other tests have nodes of this kind too
    nodes = [node["metadata"]["name"] for pool in pools for node in _nodes(cluster, pool)]
    for name in nodes:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": team}})

    def avoided() -> tuple[str, ...]:
        return asyncio.run(_avoided(namespace, pools[0], team, is_shared))

    assert avoided() == (pools[0],)
    chips = {"resources": {"limits": {"google.com/tpu": "4"}}}
    here.make(pod("taken", "sleep", "60", container=chips, nodeName=nodes[-1], tolerations=[TPU_TOLERATION]))
    until(lambda: "running" in here.state("taken"), "the pod on the other slice")
    assert avoided() == ()


def _nodes(cluster: Cluster, pool: str) -> list[Any]:
    found: list[Any] = cluster.api.get("/api/v1/nodes", labelSelector=f"{POOL}={pool}")["items"]
    return found


async def _avoided(namespace: str, lost: str, selector: dict[str, str], is_shared: bool) -> tuple[str, ...]:
    async def ask() -> tuple[str, ...]:
        async with Kubernetes() as opened:
            return await places_to_avoid(opened, (None, namespace), resolve(SHAPE), 1, (lost,), selector)

    if not is_shared:
        return await ask()
    together = Shared()
    try:
        with together.used():
            assert await ask() == (found := await ask())
            return found
    finally:
        await together.close()
