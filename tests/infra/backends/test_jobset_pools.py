"""An attempt's node pools: named by it, made once, given back with it, and never more than it has."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import anyio
import container
import pytest

from prefect_tpu.infra.backends import jobset_plan, jobset_pools
from prefect_tpu.infra.backends.base import Attempt, Refused
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.backends.jobset_pools import Kept
from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.state import Offer, Waiting
from tests.infra.backends.pool_jobs import OUTPUT, attempt, first

pytestmark = pytest.mark.anyio

ZONAL, REGIONAL = "gke://p/us-east5-b/c", "gke://p/us-east5/c"
NUMBERS = itertools.count()


@pytest.fixture
def project() -> str:
    """One of a test's own, for a project has only so many changes a minute."""
    return f"p{next(NUMBERS)}"


@pytest.fixture
def zonal(project: str) -> str:
    return f"gke://{project}/us-east5-b/c"


@pytest.fixture
def elsewhere(project: str) -> str:
    return f"gke://{project}/us-central1-a/d"


@pytest.fixture
def google(project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[container.Google]:
    places = ("us-east5-b/clusters/c", "us-central1-a/clusters/d")
    clusters = (f"projects/{project}/locations/{place}" for place in places)
    with container.taken_for_google(monkeypatch, *clusters) as fake:
        yield fake


def status(google: container.Google) -> dict[str, str]:
    return {name.rpartition("/")[2]: pool.status.name for name, pool in google.pools.items()}


async def ensured(asked: Attempt, offer: Offer | None = None) -> Waiting | Refused | None:
    with anyio.fail_after(60):
        while isinstance(answer := await jobset_pools.ensure(asked, offer or first(asked)), Waiting):
            if answer.is_dry:
                break
            await anyio.sleep(0.02)
    return answer


@pytest.mark.parametrize(
    ("cluster", "zone", "found"),
    [
        (ZONAL, None, "us-east5-b"),
        (ZONAL, "us-east5-a", "us-east5-a"),
        (REGIONAL, "us-east5-a", "us-east5-a"),
        ("gke_p_us-east5-b_c", None, "us-east5-b"),  # as gcloud names a kubeconfig's context
    ],
)
def test_pools_are_made_in_a_zone(cluster: str, zone: str | None, found: str) -> None:
    site = jobset_pools.site_of(Offer(accelerator="v6e-16", cluster=cluster, zone=zone))
    assert isinstance(site, jobset_pools.Site) and site.zone == found
    assert isinstance(site.cluster, GkeCluster)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (attempt(REGIONAL), "has a region: name a zone of it"),
        (attempt("minikube"), "cluster 'minikube' may be any: name it gke://project/location/cluster"),
        (attempt(ZONAL, accelerator="cpu"), "has no machine type"),
        (attempt(ZONAL, accelerator="v6e-16:reserved"), "needs the name of the reservation"),
        (attempt(ZONAL, accelerator="v4-32:flex-start"), "no flex-start for v4"),
    ],
)
def test_what_cannot_be_made_is_known_without_asking_anybody(asked: Attempt, why: str) -> None:
    refused = JobSetBackend().imagine(asked, first(asked))
    assert isinstance(refused, Refused) and why in refused.reason


def test_a_job_that_finds_its_nodes_has_no_pools() -> None:
    asked = attempt("minikube", make_pools=False)
    assert jobset_pools.objection(asked, first(asked)) is None
    held = jobset_plan.hold(asked, first(asked))
    assert not held.serves_once and Kept.of(held) is None
    assert jobset_plan.host_plan(asked, first(asked)).pools == ()


@pytest.mark.parametrize(("accelerator", "slices", "count"), [("v6e-16", 2, 2), ("v6e-8", 3, 1)])
def test_a_plan_names_its_pools_and_so_does_the_handle(accelerator: str, slices: int, count: int) -> None:
    asked = attempt(ZONAL, accelerator=accelerator, slices=slices)
    held = jobset_plan.hold(asked, first(asked))
    hosts = HostPlan.from_json(jobset_plan.plan(asked, held).hosts.to_json())
    assert len(hosts.pools) == count
    handle = json.loads(json.dumps(jobset_plan.target_of(hosts).handle))
    assert jobset_plan.target(handle).pools == hosts.pools
    assert held.serves_once
    kept = Kept.of(held)
    assert kept is not None and kept.pools == hosts.pools and kept.cluster == ZONAL
    assert (kept.jobset, kept.output) == ("digits-1", OUTPUT)
    assert jobset_plan.target(handle).name == kept.jobset


def test_what_google_would_be_asked_for_is_part_of_the_plan() -> None:
    asked = attempt(ZONAL, slices=2)
    plan = JobSetBackend().plan(asked, jobset_plan.hold(asked, first(asked)))
    assert tuple(pool["name"] for pool in plan.pools) == plan.hosts.pools
    assert {pool["initialNodeCount"] for pool in plan.pools} == {4}
    nodes = attempt("minikube", make_pools=False)
    assert JobSetBackend().plan(nodes, jobset_plan.hold(nodes, first(nodes))).pools == ()


def test_what_is_held_is_json() -> None:
    asked = attempt(ZONAL, slices=2)
    held = jobset_plan.hold(asked, first(asked))
    again = type(held)(offer=held.offer, handle=json.loads(json.dumps(held.handle)), serves_once=True)
    assert Kept.of(again) == Kept.of(held)


async def test_pools_are_made_with_all_that_the_job_says(google: container.Google, zonal: str) -> None:
    asked = attempt(zonal, slices=2, node_service_account="nodes@p.iam.gserviceaccount.com")
    assert await ensured(asked) is None
    names = jobset_pools.names(asked, first(asked))
    assert status(google) == dict.fromkeys(names, "RUNNING")
    for pool in google.pools.values():
        assert pool.config.service_account == "nodes@p.iam.gserviceaccount.com"
        assert (pool.config.labels["prefect-tpu-job"], pool.config.labels["prefect-tpu-attempt"]) == ("digits", "1")
        made, deadline = (int(pool.config.labels[f"prefect-tpu-{name}"]) for name in ("made", "deadline"))
        assert deadline - made >= asked.job.provision_timeout
        assert list(pool.locations) == ["us-east5-b"]


async def test_a_stockout_gives_the_turn_to_the_next_and_what_was_had_there_goes_once_that_has_its_slice(
    google: container.Google, zonal: str, elsewhere: str
) -> None:
    asked = attempt(zonal, elsewhere, slices=2)
    here, there = (Offer(accelerator="v6e-16", cluster=cluster) for cluster in (zonal, elsewhere))
    google.dry(zone="us-east5-b", after=1)
    dry = await ensured(asked, here)
    assert isinstance(dry, Waiting) and dry.is_dry
    assert jobset_pools.names(asked, here)[0] in status(google)  # it is kept for when the other one is to be had
    assert await ensured(asked, there) is None
    with anyio.fail_after(60):
        while set(status(google)) != set(jobset_pools.names(asked, there)):
            await ensured(asked, there)
            await anyio.sleep(0.02)


async def test_a_driver_that_slept_gives_nothing_back_of_the_attempts_after_its_own(
    google: container.Google, zonal: str, elsewhere: str
) -> None:
    early, late = attempt(zonal, elsewhere), attempt(zonal, elsewhere, number=2)
    there = Offer(accelerator="v6e-16", cluster=elsewhere)
    assert await ensured(late, there) is None
    assert await ensured(early) is None
    assert status(google)[jobset_pools.names(late, there)[0]] == "RUNNING"


async def test_what_is_still_being_made_elsewhere_is_left_for_now_and_said(
    google: container.Google, caplog: pytest.LogCaptureFixture, zonal: str, elsewhere: str
) -> None:
    asked = attempt(zonal, elsewhere)
    google.world.delays.making = 60.0
    await jobset_pools.ensure(asked, first(asked))
    google.world.delays.making = 0.1
    assert await ensured(asked, Offer(accelerator="v6e-16", cluster=elsewhere)) is None
    (said,) = [message for message in caplog.messages if "may be left there" in message]
    assert f"not told yet to delete node pools {jobset_pools.names(asked, first(asked))[0]}. Try again" in said


async def test_what_earlier_tries_left_is_given_back_while_the_attempt_runs(
    google: container.Google, zonal: str, elsewhere: str
) -> None:
    asked, there = attempt(zonal, elsewhere), Offer(accelerator="v6e-16", cluster=elsewhere)
    assert await ensured(asked, there) is None
    await jobset_pools.ensure(asked, first(asked))
    backend, plan = JobSetBackend(), jobset_plan.plan(asked, jobset_plan.hold(asked, there)).hosts
    with anyio.fail_after(60):
        while not await backend.tidy(asked.job, plan):
            await anyio.sleep(0.02)
    living = [name.split("/clusters/")[1] for name, pool in google.pools.items() if pool.status.name != "STOPPING"]
    assert living == [f"d/nodePools/{name}" for name in plan.pools]
    assert await backend.tidy(asked.job, plan)


async def test_slices_are_kept_where_their_cluster_does_not_say_whether_an_attempt_lives(
    google: container.Google, caplog: pytest.LogCaptureFixture, nowhere: None, zonal: str
) -> None:
    asked = attempt(zonal.replace("gke://", "gke_").replace("/", "_"))
    assert await ensured(asked) is None
    held = jobset_plan.hold(asked, first(asked))
    await JobSetBackend().release(held)
    assert status(google) == dict.fromkeys(jobset_pools.names(asked, first(asked)), "RUNNING")
    assert f"{held.handle['made']['pools'][0]} are kept for now" in caplog.text


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cluster can be reached: there is no kubeconfig."""
    monkeypatch.setenv("KUBECONFIG", "/nowhere")


async def test_a_job_that_ends_has_no_pool_any_more_in_any_cluster(
    google: container.Google, zonal: str, elsewhere: str
) -> None:
    asked = attempt(zonal, elsewhere)
    for cluster in (zonal, elsewhere):
        await jobset_pools.ensure(asked, Offer(accelerator="v6e-16", cluster=cluster))
    await JobSetBackend().withdraw(asked.job, OUTPUT)
    with anyio.fail_after(60):
        while google.pools:
            await anyio.sleep(0.02)


async def test_what_cannot_be_given_back_is_left_and_said(
    google: container.Google, caplog: pytest.LogCaptureFixture, zonal: str
) -> None:
    asked = attempt(zonal)
    assert await ensured(asked) is None
    google.world.denied.add("container.clusters.update")
    await JobSetBackend().withdraw(asked.job, OUTPUT)
    await jobset_pools.leave(zonal, jobset_pools.names(asked, first(asked)), OUTPUT)
    assert len([said for said in caplog.messages if "`prefect-tpu reap`" in said]) == 2
    assert len(google.pools) == 1


async def test_pools_of_another_job_are_not_given_back(google: container.Google, zonal: str) -> None:
    asked = attempt(zonal)
    assert await ensured(asked) is None
    names = jobset_pools.names(asked, first(asked))
    await jobset_pools.leave(zonal, names, "gs://bucket/other/digits")
    assert status(google) == dict.fromkeys(names, "RUNNING")


@pytest.fixture
def asks_google(google: container.Google) -> Any:
    return lambda: [request.called for request in google.asked]


async def test_a_job_without_pools_asks_google_nothing(asks_google: Any, zonal: str) -> None:
    asked = attempt(zonal, make_pools=False)
    assert await jobset_pools.ensure(asked, first(asked)) is None
    await JobSetBackend().withdraw(asked.job, OUTPUT)
    held = jobset_plan.hold(asked, first(asked))
    await JobSetBackend().release(held)
    assert await JobSetBackend().tidy(asked.job, jobset_plan.plan(asked, held).hosts)
    assert asks_google() == []
