"""`doctor` tells of node pools where they can be made, and of those that cost money for nobody."""

from __future__ import annotations

import time
from collections.abc import Iterator

import container
import pytest
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra.backends.jobset_pool_trial import pool_checks
from prefect_tpu.infra.checks import Verdict
from prefect_tpu.infra.gcp.pool_names import Try

pytestmark = pytest.mark.anyio
NAME, PLACE = "gke://r/us-east5-b/c", "projects/r/locations/us-east5-b/clusters/c"
TRY = Try(job="digits", attempt=1, output="gs://b/digits", accelerator="v6e-16", zone=None)


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[container.Google]:
    with container.taken_for_google(monkeypatch, PLACE) as fake:
        yield fake


def add(google: container.Google, deadline: float) -> None:
    labels = TRY.labels(time.time(), deadline)
    google.add_pool(PLACE, NodePool(name=TRY.name(0), status="RUNNING", config={"labels": labels}))
    google.add_pool(PLACE, NodePool(name="default-pool", status="RUNNING"))


async def test_they_are_counted(google: container.Google) -> None:
    add(google, time.time() + 60)
    (check,) = await pool_checks(NAME)
    assert check.verdict is Verdict.OK and check.found.startswith("2, of which 1 of prefect-tpu")


async def test_one_past_its_deadline_is_named_with_what_ends_it(google: container.Google) -> None:
    add(google, time.time() - 60)
    (check,) = await pool_checks(NAME)
    assert check.verdict is Verdict.WARN and TRY.name(0) in check.found
    assert check.advice == f"prefect-tpu reap --cluster {NAME}"


async def test_who_may_not_look_is_told_what_is_needed(google: container.Google) -> None:
    google.world.denied.add("container.clusters.get")
    (check,) = await pool_checks(NAME)
    assert check.verdict is Verdict.WARN and not check.has_failed
    assert "container.clusters.update" in check.advice


async def test_who_gets_no_answer_is_told_so(google: container.Google) -> None:
    with google.trouble(code=503):
        (check,) = await pool_checks(NAME)
    assert check.verdict is Verdict.WARN and "currently unavailable" in check.found


async def test_nothing_is_said_of_a_cluster_that_may_be_any(google: container.Google) -> None:
    assert await pool_checks("minikube") == []
    assert await pool_checks(None) == []
    assert google.asked == []
