"""However a run is stopped, its hosts save and leave, the slice is free, and the same name goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from prefect_jobs import PROGRAM, Job, Orchestrators
from prefect_server import Server

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(90)]

STEPS, HOLD_AT = 20, 10
PARAMS = {"steps": STEPS, "seconds": 0.02, "hold_at": HOLD_AT}


def goes_on(orchestrators: Orchestrators, job: Job) -> dict[str, Any]:
    """Run the job again to its end; its value."""
    job.let_go_on()
    found = orchestrators.start(job, program=PROGRAM, params=PARAMS).result()
    assert not job.overlaps() and not job.processes() and job.is_slice_free()
    value: dict[str, Any] = found["value"]
    return value


def assert_saved_and_left(job: Job) -> None:
    assert sorted(job.lives()) == [(1, host, event) for host in (0, 1) for event in ("began", "left")]
    assert not job.processes()
    assert job.is_slice_free()


def test_cancelling_a_run_that_python_started(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job]
) -> None:
    job = new_job("cancelled")
    caller = orchestrators.start(job, program=PROGRAM, params=PARAMS)
    job.wait_for_step(HOLD_AT - 1)
    run = server.wait_for_run(job.name)
    server.command("flow-run", "cancel", run["id"])
    found = caller.result()
    assert found["error"] == "JobFailed" and "stopped" in found["message"]
    state = server.wait_for_end(run)
    assert (state["type"], state["name"]) == ("CANCELLED", "Cancelled")
    assert "run it again by that name to go on" in state["message"]
    assert server.task_runs(run)["release_slice-1"] == "Completed"
    assert_saved_and_left(job)
    assert goes_on(orchestrators, job) == {"total": sum(range(STEPS)), "attempt": 2, "began_at": HOLD_AT + 1}


@pytest.mark.parametrize(("name", "number"), [("terminated", signal.SIGTERM), ("interrupted", signal.SIGINT)])
def test_a_flow_process_that_is_told_to_end_takes_its_hosts_along_and_leaves_the_job_open(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job], name: str, number: signal.Signals
) -> None:
    job = new_job(name)
    caller = orchestrators.start(job, program=PROGRAM, params=PARAMS)
    job.wait_for_step(HOLD_AT - 1)
    caller.signal(number)
    caller.wait()
    assert server.wait_for_end(server.wait_for_run(job.name))["type"] == "CRASHED"
    assert_saved_and_left(job)
    assert not job.has_end
    assert goes_on(orchestrators, job) == {"total": sum(range(STEPS)), "attempt": 2, "began_at": HOLD_AT + 1}
