"""A run's Secret on a real API server: made once, brought up to date, never another's, gone with its job."""

from __future__ import annotations

import base64

import pytest
from cluster import Cluster

from prefect_tpu.infra.gcp.errors import Conflict
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.resources import SECRETS
from prefect_tpu.infra.gcp.run_secrets import Object, ensure_secret, remove_secret, secret, secret_name

pytestmark = [pytest.mark.cluster, pytest.mark.anyio]
FOLDER, OTHER = "gs://bucket/jobs/t-1", "gs://another/jobs/t-1"
LASTING = "region-key"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def kubeconfig(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))


def wanted(namespace: str, key: str, lasting: str = "first", folder: str = FOLDER) -> Object:
    values = {"PREFECT_API_KEY": key, LASTING: lasting}
    return secret("t-1", folder, namespace, values, lifetime=60)


async def kept(client: Kubernetes, namespace: str) -> dict[str, str]:
    found = await client.get(SECRETS, secret_name("t-1"), namespace)
    return {name: base64.b64decode(value).decode() for name, value in found["data"].items()}


async def test_what_was_random_stays_and_the_rest_is_as_it_was_said_last(namespace: str) -> None:
    async with Kubernetes() as client:
        await ensure_secret(client, wanted(namespace, "old"), LASTING)
        await ensure_secret(client, wanted(namespace, "new", "second"), LASTING)
        assert await kept(client, namespace) == {"PREFECT_API_KEY": "new", LASTING: "first"}


async def test_one_of_another_job_is_neither_changed_nor_removed(namespace: str) -> None:
    async with Kubernetes() as client:
        await ensure_secret(client, wanted(namespace, "theirs", folder=OTHER), LASTING)
        with pytest.raises(Conflict, match=f"belongs to the job in {OTHER}"):
            await ensure_secret(client, wanted(namespace, "ours"), LASTING)
        assert not await remove_secret(client, "t-1", FOLDER, namespace)
        assert (await kept(client, namespace))["PREFECT_API_KEY"] == "theirs"


async def test_it_goes_once_and_nothing_happens_where_it_is_gone(namespace: str) -> None:
    async with Kubernetes() as client:
        await ensure_secret(client, wanted(namespace, "ours"), LASTING)
        assert await remove_secret(client, "t-1", FOLDER, namespace)
        assert not await remove_secret(client, "t-1", FOLDER, namespace)
        assert await client.find(SECRETS, secret_name("t-1"), namespace) is None
