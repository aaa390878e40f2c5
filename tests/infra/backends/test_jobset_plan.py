"""What is sent of an attempt is a function of its plan and slice, and found again by its handle alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from prefect_tpu.infra.backends import jobset_plan
from prefect_tpu.infra.backends.base import Attempt, Held, Refused
from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.ownership import IDENTITY
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer

PROGRAM = Program(kind="command", target="true")
BACKEND = JobSetBackend({})
PODS = PodSettings(image="x")


def attempt(accelerator: str = "v6e-16", pods: PodSettings | None = PODS, **changes: Any) -> Attempt:
    job = SliceJob(name="job", program=PROGRAM, accelerators=(accelerator,), backend="jobset", pods=pods, **changes)
    return Attempt(job=job, number=3, output="/shared/jobs/job")


def planned(asked: Attempt) -> tuple[Any, Held]:
    held = BACKEND.imagine(asked, Offer(accelerator=asked.job.accelerators[0]))
    assert isinstance(held, Held)
    return BACKEND.plan(asked, held), held


def test_hosts_of_all_slices_meet_at_the_first_pod() -> None:
    plan, _ = planned(attempt(slices=2))
    hosts = plan.hosts
    assert (hosts.hosts, hosts.slices, hosts.devices_per_host, hosts.platform) == (8, 2, 4, "tpu")
    assert hosts.addresses[0] == "job-3-s-0-0.job-3" and hosts.addresses[-1] == "job-3-s-1-3.job-3"
    assert hosts.coordinator.startswith(f"{hosts.addresses[0]}:") and hosts.orphan_after is None


def test_hosts_of_a_flow_get_its_regions_at_the_first_pod() -> None:
    asked = attempt()
    flow = replace(asked, job=replace(asked.job, program=Program(kind="flow", target="prefect")))
    plan, _ = planned(flow)
    assert plan.hosts.regions == f"{plan.hosts.addresses[0]}:8490"
    (container,) = _containers(plan)
    assert {port["containerPort"] for port in container["ports"]} >= {8482, 8490}
    plan, _ = planned(asked)
    assert plan.hosts.regions is None
    assert 8490 not in {port["containerPort"] for port in _containers(plan)[0]["ports"]}


def _containers(plan: Any) -> list[dict[str, Any]]:
    job = plan.objects[-1]["spec"]["replicatedJobs"][0]["template"]["spec"]
    return job["template"]["spec"]["containers"]  # type: ignore[no-any-return]


def test_a_job_is_rehearsed_without_its_chips_where_its_environment_says_so() -> None:
    plan, _ = planned(attempt(env={"JAX_PLATFORMS": "cpu"}))
    assert (plan.hosts.hosts, plan.hosts.devices_per_host, plan.hosts.platform) == (4, 4, "cpu")


def test_whoever_has_the_plan_and_the_slice_sends_the_same_objects() -> None:
    """Also where both were written down: a driver may be killed between the plan and the JobSet."""
    plan, held = planned(attempt())
    again = Held(offer=held.offer, handle=json.loads(json.dumps(held.handle)))
    assert jobset_plan.objects(plan.hosts, again) == plan.objects
    assert [found["kind"] for found in plan.objects] == ["ConfigMap", "JobSet"]


def test_a_handle_selects_this_attempt_and_no_other() -> None:
    plan, _ = planned(attempt())
    target = jobset_plan.target(json.loads(json.dumps(BACKEND.attach(plan.hosts))))
    labels = plan.objects[1]["metadata"]["labels"]
    assert dict(part.split("=", 1) for part in target.selector.split(",")) == {name: labels[name] for name in IDENTITY}
    elsewhere = BACKEND.attach(replace(plan.hosts, output="/shared/other/job"))
    assert jobset_plan.target(elsewhere).selector != target.selector


def test_what_gke_has_no_nodes_of_is_refused() -> None:
    answer = BACKEND.imagine(attempt("v2-8"), Offer(accelerator="v2-8"))
    assert isinstance(answer, Refused) and "v2-8" in answer.reason


@pytest.mark.parametrize(
    ("output", "volumes"),
    [
        ("gs://bucket/jobs", {}),
        ("file:///both/jobs", {}),
        ("/shared/jobs", {"/shared": "claim:files"}),
        ("/shared/jobs", {"/shared": "gs://bucket"}),
    ],
)
def test_outputs_that_hosts_reach(output: str, volumes: dict[str, str]) -> None:
    BACKEND.check(attempt(pods=PodSettings(image="x", volumes=volumes)).job, output)


@pytest.mark.parametrize(
    ("output", "volumes"),
    [("/home/me/jobs", {}), ("/shared/jobs", {"/shared": "empty"}), ("/shared-not/jobs", {"/shared": "claim:files"})],
)
def test_outputs_that_hosts_do_not_reach(output: str, volumes: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        BACKEND.check(attempt(pods=PodSettings(image="x", volumes=volumes)).job, output)


def test_without_an_image_nothing_is_sent() -> None:
    with pytest.raises(UsageError, match="image"):
        BACKEND.check(attempt(pods=None).job, "gs://bucket/jobs")


def test_where_no_output_is_named_a_bucket_of_the_environment_is_taken() -> None:
    assert JobSetBackend({Env.OUTPUT: "gs://bucket/jobs"}).default_output() == "gs://bucket/jobs"
    for environment in ({}, {Env.OUTPUT: "/home/me/jobs"}):
        with pytest.raises(UsageError, match="--output"):
            JobSetBackend(environment).default_output()
