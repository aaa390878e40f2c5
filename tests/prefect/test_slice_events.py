"""What the flow `train` tells of its slices, heard from the server: each thing that happens, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from prefect_jobs import PROGRAM, Job, Orchestrators
from prefect_server import Server, wait_for
from slice_events_told import named, told_of, told_of_run

from prefect_tpu.infra.backends.local_slices import LocalSlices, SliceLock
from prefect_tpu.infra.places import data_folder

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

ASKED: dict[str, Any] = {"program": PROGRAM, "params": {"steps": 20}, "drills": ["preempt@step=5"]}
EXPECTED = {
    (1, "queued"), (1, "provisioned"), (1, "started"), (1, "preempted"), (1, "restarted"),
    (2, "provisioned"), (2, "started"), (2, "finished"),
}  # fmt: skip


@pytest.fixture(scope="module")
def job(new_job: Callable[[str], Job]) -> Job:
    return new_job("told")


@pytest.fixture(scope="module")
def run(server: Server, orchestrators: Orchestrators, job: Job) -> dict[str, Any]:
    """One that waits for its turn first, is preempted once, and ends well."""
    slices = LocalSlices(data_folder(job.environment) / "slices", 1)
    taken = slices.take("another")
    assert isinstance(taken, SliceLock)
    caller = orchestrators.start(job, **ASKED)
    run = server.wait_for_run(job.name)
    wait_for(lambda: (1, "queued") in named(told_of_run(server, run)), "that the job waits")
    slices.give_back(taken)
    assert caller.result()["attempts"] == [1, 2]
    wait_for(lambda: (2, "finished") in named(told_of_run(server, run)), "that the job has finished")
    return run


def test_each_thing_that_happens_is_told_once(server: Server, run: dict[str, Any]) -> None:
    found = named(told_of_run(server, run))
    assert set(found) == EXPECTED and len(found) == len(EXPECTED)


def test_it_says_what_is_waited_for_what_was_had_and_why_it_went(server: Server, run: dict[str, Any], job: Job) -> None:
    events = told_of_run(server, run)
    payloads = {pair: one["payload"] for pair, one in zip(named(events), events, strict=True)}
    assert "taken by job 'another'" in payloads[1, "queued"]["reason"]
    assert payloads[1, "queued"]["waits_for"] == "turn"
    assert payloads[1, "provisioned"]["said"].startswith("cpu-2x1: 2 hosts")
    assert payloads[1, "preempted"]["kind"] == "preempted" and payloads[1, "preempted"]["advice"]
    assert payloads[2, "finished"]["folder"] == str(job.output)


def test_it_belongs_to_the_run_and_its_flow(server: Server, run: dict[str, Any], job: Job) -> None:
    for event in told_of_run(server, run):
        related = {one["prefect.resource.role"]: one["prefect.resource.id"] for one in event["related"]}
        assert related["flow-run"] == f"prefect.flow-run.{run['id']}"
        assert related["flow"] == f"prefect.flow.{run['flow_id']}"
        assert event["resource"]["prefect-tpu.job"] == job.name


def test_a_second_run_of_a_finished_job_tells_nothing_again(
    server: Server, orchestrators: Orchestrators, run: dict[str, Any], job: Job
) -> None:
    assert orchestrators.start(job, **ASKED).result()["attempts"] == [1, 2]
    again = wait_for(lambda: (last := server.run_of(job.name)) and last["id"] != run["id"] and last, "the second run")
    later = f"prefect.flow-run.{again['id']}"  # what it sends at its end comes after what it tells of its job
    wait_for(lambda: told_of(server, later, "prefect.task-run.Completed"), "the end of the second run's tasks")
    wait_for(lambda: told_of(server, later, "prefect.flow-run.Completed"), "the end of the second run")
    finished = told_of(server, f"prefect-tpu.slice.{job.name}-2", "prefect-tpu.slice.finished")
    assert [one["related"][0]["prefect.resource.id"] for one in finished] == [f"prefect.flow-run.{run['id']}"]
