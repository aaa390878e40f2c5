"""A real flow run on a slice: what Prefect says of it while its slices are lost, and what is run again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect_jobs import ACCELERATOR, Job
from prefect_server import Server, running, wait_for

from prefect_tpu.infra import layout
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
DRIVE = HERE.parent / "programs" / "drive.py"
EXECUTE = Program(kind="flow", target="python", arguments=("-m", "prefect", "flow-run", "execute"))


@pytest.fixture
def job(new_job: Any) -> Job:
    return new_job("regional")  # type: ignore[no-any-return]


@pytest.fixture
def flow() -> str:
    """Of `region_flow`; a test may name another one."""
    return "regional"


@pytest.fixture
def run(server: Server, job: Job, flow: str) -> dict[str, Any]:
    """A flow run of a deployment, handed out as a worker does it."""
    made = server.ask("/flows/", name=flow)
    deployment = server.ask(
        "/deployments/", name="slice", flow_id=made["id"], path=str(HERE), entrypoint=f"region_flow.py:{flow}"
    )
    parameters = {"folder": str(job.folder)}
    run = server.ask(
        f"/deployments/{deployment['id']}/create_flow_run", parameters=parameters, state={"type": "PENDING"}
    )
    return run  # type: ignore[no-any-return]


@pytest.fixture
def driver(server: Server, job: Job, run: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """Drives the run's job, as the reconciler would without moving the run."""
    env = {"PREFECT__FLOW_RUN_ID": run["id"]}
    wanted = SliceJob(name=job.name, program=EXECUTE, accelerators=(ACCELERATOR,), env=env)
    LocalStorage(job.output).put_if_absent(layout.JOB, wanted.to_json())
    path = job.folder / "job.json"
    path.write_bytes(wanted.to_json())
    command = [sys.executable, "-P", str(DRIVE), str(path), str(job.output)]
    with running(command, {**server.environment, **job.environment}, job.folder, "driver") as process:
        yield process


def await_region(job: Job, attempt: int) -> None:
    files = [job.folder / f"waits-{attempt}-{host}" for host in (0, 1)]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files), f"the region of attempt {attempt}")


def runner(job: Job, attempt: int, host: int) -> psutil.Process:
    claim = json.loads((job.output / layout.started(attempt, host)).read_bytes())
    return psutil.Process(claim["pid"])


def result_of(job: Job) -> dict[str, Any]:
    """As the driver told it at its end."""
    found: dict[str, Any] = json.loads((job.folder / "driver.log").read_text().splitlines()[-1])
    return found


def test_a_run_stays_as_it_is_while_slices_are_lost_and_goes_on(
    server: Server, job: Job, run: dict[str, Any], driver: subprocess.Popen[bytes]
) -> None:
    await_region(job, 1)
    psutil.Process(int((job.folder / "waits-1-1").read_text())).kill()  # a follower's part of the region
    await_region(job, 2)
    runner(job, 2, 0).terminate()  # the leader's notice
    await_region(job, 3)
    assert server.ask(f"/flow_runs/{run['id']}")["state"]["type"] == "RUNNING"
    (job.folder / "go").touch()
    assert server.wait_for_end(run)["type"] == "COMPLETED"
    driver.wait(60)
    result = result_of(job)
    assert result["state"] == "succeeded", result
    failures = [(each["failure"]["kind"], each["failure"]["host"]) for each in result["attempts"][:-1]]
    assert failures == [("host_lost", 1), ("preempted", 0)]
    states = server.ask(f"/flow_run_states/?flow_run_id={run['id']}")
    moves = [state["type"] for state in sorted(states, key=lambda state: state["timestamp"])]
    assert moves[-4:] == ["RUNNING", "RUNNING", "RUNNING", "COMPLETED"]
    assert (job.folder / "prepared").read_text() == "1\n", "a persisted task is not run again"
    job.wait_until_gone()


@pytest.mark.parametrize("flow", ["nested"])
def test_what_subflows_and_caches_have_is_kept_when_a_slice_is_lost(
    server: Server, job: Job, run: dict[str, Any], driver: subprocess.Popen[bytes]
) -> None:
    """One subflow had ended, the other one was in the region of a task."""
    await_region(job, 1)
    runner(job, 1, 1).kill()
    await_region(job, 2)
    (job.folder / "go").touch()
    assert server.wait_for_end(run)["type"] == "COMPLETED"
    driver.wait(60)
    result = result_of(job)
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["host_lost", "succeeded"], result
    notes = {what: (job.folder / what).read_text().split() for what in ("measured", "first", "second")}
    assert notes["measured"] == ["1"], "the same inputs, in two subflows and two attempts"
    assert notes["first"] == ["1"], "a subflow that had ended is not run again"
    assert notes["second"] == ["1", "2"], "the other one goes on"
    told = [(job.folder / f"told-{host}").read_text().split() for host in (0, 1)]
    assert told == [["1", "1"]] * 2, "once in each subflow, on every host"
    assert (job.folder / "values").read_text() == "42 43 44 45 42 43"
    children = server.ask("/flow_runs/filter", flow_runs={"parent_flow_run_id": {"any_": [run["id"]]}})
    assert [child["state"]["type"] for child in children] == ["COMPLETED"] * 2, "none was begun a second time"
    assert sorted(child["run_count"] for child in children) == [1, 2]
    job.wait_until_gone()
