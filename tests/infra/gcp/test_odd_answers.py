"""What answers for Google may be a proxy, a page to log in, or a Google newer than its client: nothing breaks."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from aiohttp import web

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.gke_access import OVERRIDE
from prefect_tpu.infra.gcp.google_api import CLOUD_QUOTAS
from prefect_tpu.infra.gcp.node_pools import NodePools
from prefect_tpu.infra.gcp.patience import Patience
from prefect_tpu.infra.gcp.quotas import Need, google_rulings
from prefect_tpu.infra.policy.quota import Fit

pytestmark = pytest.mark.anyio
CLUSTER = GkeCluster(project="research", location="us-east5", cluster="training")
LISTED = f"/v1/{CLUSTER.resource_name}/nodePools"
OPERATIONS = "/v1/projects/research/locations/us-east5/operations"
QUOTA = (
    "/v1/projects/research/locations/global/services/compute.googleapis.com/quotaInfos/"
    "TPUS-PER-TPU-FAMILY-per-project-region"
)
ODD = {
    "a page": (200, b"<html>Log in</html>"),
    "no text": (200, b"\xff\xfe\x00"),
    "nothing": (200, b""),
    "null": (200, b"null"),
    "an error in a word": (403, b'{"error": "unauthorized_client"}'),
    "an error that is none": (500, b'{"error": null}'),
    "details in a word": (403, b'{"error": {"message": "m", "details": ["x"]}}'),
    "a page of a gateway": (502, b"<html>Bad gateway</html>"),
}


def answering(code: int, body: bytes) -> Any:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, body=body, content_type="application/json")

    return answer


def saying(**content: Any) -> Any:
    return answering(200, json.dumps(content).encode())


@pytest.mark.parametrize(("code", "body"), ODD.values(), ids=ODD.keys())
async def test_pools_are_not_known_then(server: Any, monkeypatch: pytest.MonkeyPatch, code: int, body: bytes) -> None:
    server.on("GET", LISTED, answering(code, body))
    monkeypatch.setenv(OVERRIDE, server.url)
    with pytest.raises(Unavailable, match="Could not list the node pools of cluster gke://research/us-east5/training"):
        await NodePools(CLUSTER, Patience(retry=0.1)).look()


@pytest.mark.parametrize(("code", "body"), ODD.values(), ids=ODD.keys())
async def test_whether_a_pool_is_being_made_is_not_known_then(
    server: Any, monkeypatch: pytest.MonkeyPatch, code: int, body: bytes
) -> None:
    server.on("POST", LISTED, answering(code, body))
    monkeypatch.setenv(OVERRIDE, server.url)
    failure = await NodePools(CLUSTER).create({"name": "p", "initialNodeCount": 1})
    assert failure is not None
    assert not failure.trouble.is_final


@pytest.mark.parametrize(("code", "body"), ODD.values(), ids=ODD.keys())
async def test_a_quota_cannot_be_told_then(
    server: Any, monkeypatch: pytest.MonkeyPatch, code: int, body: bytes
) -> None:
    server.on("GET", QUOTA, answering(code, body))
    monkeypatch.setenv(CLOUD_QUOTAS.override, server.url)
    shape = resolve("v6e-16")
    need = Need(shape=shape, chips=16, capacity="on-demand", project="research", location="us-east5", limit_seconds=5)
    assert [ruling.fit for ruling in await google_rulings(need)] == [Fit.CANNOT_TELL]


async def test_values_that_google_has_added_since_are_told_by_their_number(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = {"name": "p", "status": 77, "conditions": [{"code": 99, "message": "new"}]}
    target = f"https://container.googleapis.com/v1/{CLUSTER.resource_name}/nodePools/p"
    operation = {"name": "o", "operationType": 999, "status": 2, "targetLink": target}
    server.on("GET", LISTED, saying(nodePools=[pool]))
    server.on("GET", OPERATIONS, saying(operations=[operation]))
    monkeypatch.setenv(OVERRIDE, server.url)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Google's client warns of each
        seen = await NodePools(CLUSTER).look()
    assert seen.pools["p"].status == "77"
    assert [one.condition for one in seen.pools["p"].troubles] == ["99"]
    assert seen.running is not None
    assert seen.running.kind == "999"
