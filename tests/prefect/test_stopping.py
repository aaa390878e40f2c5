"""However a run is stopped, its hosts save and leave, the slice is free, and the same name goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from prefect_jobs import PROGRAM, Job, Orchestrator, Orchestrators
from prefect_server import Server

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

STEPS, HOLD_AT = 20, 10
PARAMS = {"steps": STEPS, "seconds": 0.02, "hold_at": HOLD_AT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A job whose programs wait at a step, and the call that drives it."""

    job: Job
    caller: Orchestrator


@pytest.fixture(scope="module", autouse=True)
def held(orchestrators: Orchestrators, new_job: Callable[[str], Job]) -> dict[str, Held]:
    """All at once: they start while others are looked at."""
    jobs = [new_job(name) for name in ("cancelled", "terminated", "interrupted")]
    return {job.name: Held(job=job, caller=orchestrators.start(job, program=PROGRAM, params=PARAMS)) for job in jobs}


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
    server: Server, orchestrators: Orchestrators, held: dict[str, Held]
) -> None:
    job, caller = held["cancelled"].job, held["cancelled"].caller
    job.wait_for_step(HOLD_AT - 1)
    run = server.wait_for_run(job.name)
    server.ask(
        f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLING", "name": "Cancelling"}
    )  # as the UI does
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
    server: Server, orchestrators: Orchestrators, held: dict[str, Held], name: str, number: signal.Signals
) -> None:
    job, caller = held[name].job, held[name].caller
    job.wait_for_step(HOLD_AT - 1)
    caller.signal(number)
    caller.wait()
    assert server.wait_for_end(server.wait_for_run(job.name))["type"] == "CRASHED"
    assert_saved_and_left(job)
    assert not job.has_end
    assert goes_on(orchestrators, job) == {"total": sum(range(STEPS)), "attempt": 2, "began_at": HOLD_AT + 1}
