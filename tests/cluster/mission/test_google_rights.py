"""Each permission on Google's side taken away in turn: whoever wants a pool is told which one; nothing is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import container
import pytest
import tokens
from cluster import Cluster
from container import Google
from control_plane import users
from rights import DRIVER, grant

from prefect_tpu.infra.backends.base import Attempt, Held, Refused
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.gcp.google_permissions import MAKING_POOLS, REACHING
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer, Waiting

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

PLACE = "projects/research/locations/us-east5/clusters/rights"
CLUSTER = "gke://research/us-east5/rights"
OFFER = Offer(accelerator="v6e-8", cluster=CLUSTER, zone="us-east5-a")
# Asked by Google for a call that goes to the cluster itself, and for a look at one operation, of which we list all.
NOT_ASKED_HERE = {"container.clusters.connect", "container.operations.get"}
ASKED = sorted({*REACHING.permissions, *MAKING_POOLS.permissions} - NOT_ASKED_HERE)


@pytest.fixture
def google(cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    grant(cluster, namespace)
    server, token = cluster.plane.server, users.token_of(cluster.api, namespace, DRIVER)
    with container.running() as google, tokens.running(token, tmp_path) as key:
        address = server.url.removeprefix("https://")
        google.add_cluster(PLACE, endpoint=address, authority=server.authority.read_bytes())
        for name, value in {**google.environment, **key.environment}.items():
            monkeypatch.setenv(name, value)
        yield google


def provision(namespace: str) -> Held | Waiting | Refused:
    pods = PodSettings(image="any", cluster=CLUSTER, namespace=namespace, zones=("us-east5-a",), make_pools=True)
    program = Program(kind="command", target="true")
    job = SliceJob(name="any", program=program, accelerators=("v6e-8",), backend="jobset", pods=pods)
    return anyio.run(JobSetBackend().provision, Attempt(job=job, number=1, output="gs://bucket/any"), OFFER)


def test_with_all_of_them_a_pool_is_made(google: Google, namespace: str) -> None:
    assert isinstance(provision(namespace), Waiting)
    assert len(google.pools) == 1


@pytest.mark.parametrize("missing", ASKED)
def test_a_permission_that_is_missing_is_named(google: Google, namespace: str, missing: str) -> None:
    google.world.denied.add(missing)
    try:
        answer = provision(namespace)
    except PlatformError as error:
        said = str(error)
    else:
        assert isinstance(answer, Refused), answer
        said = answer.reason
    assert missing in said and ("rights" in said or "projects/research" in said), said
    assert google.pools == {}


@pytest.mark.parametrize("spared", sorted(NOT_ASKED_HERE))
def test_what_is_not_asked_for_here_is_not_missed_here(google: Google, namespace: str, spared: str) -> None:
    google.world.denied.add(spared)
    assert isinstance(provision(namespace), Waiting)
