"""Pools that are left are found by their labels, and told apart: ours below this output, ours elsewhere, others'."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import container
import pytest
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra.backends import jobset_pool_remnants
from prefect_tpu.infra.backends.base import Remnant
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.backends.jobset_pool_remnants import Below, remnants, told_apart
from prefect_tpu.infra.gcp.pool_facts import Pool
from prefect_tpu.infra.gcp.pool_names import Try

pytestmark = pytest.mark.anyio

NOW = 1_790_000_000.0
NAME, PLACE = "gke://q/us-east5-b/c", "projects/q/locations/us-east5-b/clusters/c"


def of(
    output: str, job: str = "digits", attempt: int = 3, *, deadline: float = NOW + 60, status: str = "RUNNING"
) -> Pool:
    tried = Try(job=job, attempt=attempt, output=output, accelerator="v6e-16", zone="us-east5-b")
    return Pool(name=tried.name(0), status=status, labels=tried.labels(NOW - 40, deadline))


def found(*pools: Pool, jobs: tuple[str, ...] = ("digits",)) -> list[Remnant]:
    return list(remnants(pools, NAME, Below("/shared/jobs", jobs), NOW))


def test_a_pool_of_a_job_that_is_there() -> None:
    (one,) = found(of("/shared/jobs/digits"))
    assert (one.output, one.attempt, one.job, one.age) == ("/shared/jobs/digits", 3, "digits", 40.0)
    assert one.comes_first and one.overdue is None
    assert one.what == f"node pool {of('/shared/jobs/digits').name!r} of cluster {NAME}"
    assert json.loads(json.dumps(one.handle)) == one.handle


def test_one_whose_jobs_folder_is_gone_is_known_by_its_name() -> None:
    (one,) = found(of("/shared/jobs/digits"), jobs=())
    assert one.output == "/shared/jobs/digits"


@pytest.mark.parametrize("job", ["digits", "../digits", "Digits"])
def test_one_of_another_output_is_only_known_to_be_somebodys(job: str) -> None:
    (one,) = found(of("/other/digits", job))
    assert one.output is None and one.job == job


def test_one_past_its_deadline_says_since_when() -> None:
    (one,) = found(of("/other/digits", deadline=NOW - 5))
    assert one.overdue == 5.0


def test_what_is_not_ours_or_goes_already_is_not_told() -> None:
    assert found(Pool(name="default-pool", status="RUNNING"), of("/shared/jobs/digits", status="STOPPING")) == []


def test_nothing_runs_on_a_pool_whose_jobset_is_over_or_gone_where_that_was_looked_at() -> None:
    def over(pool: Pool, *others: Remnant, looked_at: tuple[str, ...] = ("digits",)) -> bool:
        (one,) = told_apart(found(pool), others, set(looked_at))
        return one.is_over

    mine = of("/shared/jobs/digits")
    jobset = replace(found(mine)[0], what="JobSet 'digits-3'")
    assert over(mine)
    assert over(mine, replace(jobset, is_over=True))
    assert over(mine, replace(jobset, attempt=4))
    assert over(mine, replace(jobset, output="/other/digits"))
    assert not over(mine, jobset)
    assert not over(mine, looked_at=())
    assert not over(of("/other/digits"))


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[container.Google]:
    with container.taken_for_google(monkeypatch, PLACE) as fake:
        yield fake


def add(google: container.Google, pool: Pool) -> None:
    google.add_pool(PLACE, NodePool(name=pool.name, status="RUNNING", config={"labels": dict(pool.labels)}))


async def test_they_are_found_in_the_cluster_and_ended_one_by_one(google: container.Google, tmp_path: Path) -> None:
    mine, other = of(str(tmp_path / "digits")), of("/other/digits", deadline=time.time() - 5)
    for pool in (mine, other, Pool(name="default-pool", status="RUNNING")):
        add(google, pool)
    left = await jobset_pool_remnants.find(NAME, str(tmp_path), [])
    assert {one.output for one in left} == {str(tmp_path / "digits"), None}
    for one in left:
        await JobSetBackend().forget(one.handle)
        await JobSetBackend().forget(one.handle)
    with anyio.fail_after(60):
        while len(google.pools) > 1:
            await anyio.sleep(0.02)
    assert await jobset_pool_remnants.find(NAME, str(tmp_path), []) == []


async def test_a_pool_that_has_another_owner_by_now_is_not_ended(google: container.Google) -> None:
    pool = of("/shared/jobs/digits")
    (one,) = found(pool)
    google.add_pool(PLACE, NodePool(name=pool.name, status="RUNNING", config={"labels": {"team": "other"}}))
    await JobSetBackend().forget(one.handle)
    assert len(google.pools) == 1


async def test_a_cluster_that_is_not_known_to_be_googles_has_none(google: container.Google) -> None:
    assert await jobset_pool_remnants.find("minikube", "/shared/jobs", []) == []
    assert google.asked == []
