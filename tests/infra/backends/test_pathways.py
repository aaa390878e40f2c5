"""A job on Pathways is planned for one host with all chips, found again by its handle, or refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from prefect_tpu.infra.backends import jobset_plan, open_backend
from prefect_tpu.infra.backends.base import Attempt, Held, Plan, Refused
from prefect_tpu.infra.backends.jobset_remnants import _target
from prefect_tpu.infra.backends.jobset_roles import Helpers
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.pathways import PathwaysSettings
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer

PROGRAM = Program(kind="command", target="true")
BACKEND = open_backend("pathways")
OUTPUT = "gs://bucket/jobs"


def job(accelerator: str = "v5p-2x2x4", pathways: PathwaysSettings | None = None, **changes: Any) -> SliceJob:
    pods = PodSettings(image="i", pathways=pathways or PathwaysSettings(jax="0.10.2"))
    values = {"slices": 2, "env": {"LEVEL": "info"}, **changes}
    return SliceJob(name="job", program=PROGRAM, accelerators=(accelerator,), backend="pathways", pods=pods, **values)


def planned(asked: SliceJob) -> tuple[Plan, Held]:
    attempt = Attempt(job=asked, number=3, output=f"{OUTPUT}/job")
    held = BACKEND.imagine(attempt, Offer(accelerator=asked.accelerators[0]))
    assert isinstance(held, Held)
    return BACKEND.plan(attempt, held), held


def test_there_is_one_host_which_has_the_chips_of_all_slices() -> None:
    plan, held = planned(job())
    hosts = plan.hosts
    assert (hosts.backend, hosts.platform, hosts.hosts, hosts.slices, hosts.hosts_per_slice) == (
        *("pathways", "proxy", 1, 2, 1),
    )
    assert (hosts.workers, hosts.devices_per_host, hosts.elastic_slices) == (8, 32, 0)
    assert hosts.addresses == ("job-3-pathways-head-0-0.job-3",)
    assert hosts.env == {"LEVEL": "info"}  # JAX's cache of compiled programs is not shared
    assert HostPlan.from_json(hosts.to_json()) == hosts
    again = Held(offer=held.offer, handle=json.loads(json.dumps(held.handle)))
    assert jobset_plan.objects(hosts, again) == plan.objects


def test_the_one_host_of_a_flow_starts_its_regions_itself() -> None:
    asked = job()
    plan, _ = planned(replace(asked, program=Program(kind="flow", target="prefect")))
    assert plan.hosts.regions == "job-3-pathways-head-0-0.job-3:8490"


def test_a_handle_says_which_pods_are_hosts_and_so_does_a_jobset_without_its_plan() -> None:
    plan, _ = planned(job())
    target = jobset_plan.target(json.loads(json.dumps(BACKEND.attach(plan.hosts))))
    assert (target.slices, target.hosts, target.hosts_per_slice) == (1, 1, 1)
    assert target.helpers == Helpers(job="worker", slices=2, pods=8)
    jobset = {**plan.objects[-1], "metadata": {**plan.objects[-1]["metadata"], "namespace": "default"}}
    assert _target(jobset, None) == target


def test_what_an_elastic_job_goes_on_without_is_known_to_whoever_watches() -> None:
    plan, _ = planned(job(pathways=PathwaysSettings(jax="0.10.2", elastic_slices=1)))
    assert plan.hosts.elastic_slices == 1
    target = jobset_plan.target_of(plan.hosts)
    assert target.helpers is not None and target.helpers.spare == 1


def test_a_job_that_it_can_carry_out_is_taken() -> None:
    BACKEND.check(job(), OUTPUT)
    BACKEND.check(job(pathways=PathwaysSettings(jax="0.10.2", scratch="gs://other/p")), "file:///shared/jobs")


@pytest.mark.parametrize(
    ("accelerator", "says"),
    [
        ("v3-32", "Pathways does not drive v3 (v3-32): name one of v4, v5e, v5p, v6e, tpu7x"),
        ("v2-8", "GKE has no nodes of v2-8"),
        ("l4", "Pathways drives TPUs alone, and l4 is none"),
        ("cpu", "Pathways drives TPUs alone, and cpu is none"),
    ],
)
def test_accelerators_that_it_does_not_drive_are_refused(accelerator: str, says: str) -> None:
    asked = job(accelerator)
    with pytest.raises(UsageError) as refused:
        BACKEND.check(asked, OUTPUT)
    assert says in str(refused.value)
    attempt = Attempt(job=asked, number=1, output=f"{OUTPUT}/job")
    assert isinstance(BACKEND.imagine(attempt, Offer(accelerator=accelerator)), Refused)


@pytest.mark.parametrize(
    ("pathways", "changes", "output", "says"),
    [
        ({}, {}, "file:///shared/jobs", r"needs a bucket's folder to work in, .*pathways\.scratch=gs://"),
        ({"jax": "0.11.0"}, {}, OUTPUT, r"fit JAX 0\.11\.0 is not known"),
        ({"jax": None}, {}, OUTPUT, "name that of the job's image"),
        ({"elastic_slices": 3}, {}, OUTPUT, "elastic_slices is 3, and the job spans 2"),
        ({"elastic_slices": 1}, {"slices": 1}, OUTPUT, "has none to go on with"),
        ({}, {"drills": ("preempt@step=3,host=1",)}, OUTPUT, "strikes no host: a job on Pathways has one, host 0"),
    ],
)
def test_what_contradicts_itself_is_refused_before_anything_is_written(
    pathways: dict[str, Any], changes: dict[str, Any], output: str, says: str
) -> None:
    asked = job(pathways=PathwaysSettings(**{"jax": "0.10.2", **pathways}), **changes)
    with pytest.raises(UsageError, match=says):
        BACKEND.check(asked, output)
