"""The flow as a deployment: `local.yaml`, a `process` work pool, the command line, a schedule, the form."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect_jobs import ACCELERATOR, Job
from prefect_server import PREFECT, Server, running

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

ROOT = Path(__file__).parent.parent.parent
STEPS, HOLD_AT = 20, 10
TOTAL = sum(range(STEPS))
INTERVAL_SECONDS = 30  # longer than a run takes: they must not pile up
DEPLOYMENT = "/deployments/name/train/local"


@pytest.fixture(scope="session")
def deployed_job(new_job: Callable[[str], Job]) -> Job:
    return new_job("deployed")


@pytest.fixture(scope="session")
def scheduled_job(new_job: Callable[[str], Job]) -> Job:
    return new_job("scheduled")


@pytest.fixture(scope="session")
def worker(server: Server, deployed_job: Job) -> Iterator[None]:
    """A pool, a worker, and the deployment of `local.yaml`."""
    environment = {**server.environment, **deployed_job.environment, "PREFECT_TPU_LOCAL_SLICES": "2"}
    server.ask("/work_pools/", name="local", type="process", base_job_template={})
    with running([*PREFECT, "worker", "start", "--pool", "local"], environment, server.folder, "worker"):
        server.command("deploy", "--all", "--prefect-file", "deployments/local.yaml", folder=ROOT)
        yield


def parameters_of(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "accelerator": ACCELERATOR,
        "program": "tests/programs/counter.py:main",  # counts from where it was deployed
        "output": str(job.folder / "jobs"),
        "params": {"steps": STEPS, "hold_at": HOLD_AT},
    }


@pytest.fixture(scope="session", autouse=True)
def schedule(server: Server, worker: None, scheduled_job: Job) -> str:
    """A schedule with parameters of its own; its run comes while others are looked at. The path of the schedule."""
    schedules = f"/deployments/{server.ask(DEPLOYMENT)['id']}/schedules"
    soon = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=6)
    interval = {"interval": INTERVAL_SECONDS, "anchor_date": soon.isoformat()}
    parameters = {**parameters_of(scheduled_job), "params": {"steps": STEPS}}
    (made,) = server.post(schedules, [{"schedule": interval, "parameters": parameters}])
    return f"{schedules}/{made['id']}"


def run_deployment(server: Server, job: Job) -> None:
    given = parameters_of(job)
    words = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()]
    server.command("deployment", "run", "train/local", *(part for word in words for part in ("--param", word)))


def test_the_form_is_flat_typed_and_explained(server: Server, worker: None) -> None:
    schema = server.ask(DEPLOYMENT)["parameter_openapi_schema"]
    fields = schema["properties"]
    assert schema["required"] == ["program"]
    assert list(fields)[:4] == ["program", "accelerator", "params", "data"]
    assert fields["accelerator"]["type"] == "string" and fields["accelerator"]["default"] == "cpu"
    assert [name for name, field in fields.items() if "$ref" in field or "allOf" in field] == ["timing", "pods"]
    assert [name for name, field in fields.items() if "anyOf" in field] == []
    groups = [schema["definitions"][group]["properties"] for group in ("Timing", "Pods")]
    assert [name for name, field in groups[1].items() if "anyOf" in field] == []
    for name, field in [*fields.items(), *(item for group in groups for item in group.items())]:
        description = field["description"]
        assert description[0].isupper() and description.endswith("."), f"{name}: {description}"


def test_run_from_the_command_line_cancelled_and_run_again(server: Server, worker: None, deployed_job: Job) -> None:
    job = deployed_job
    run_deployment(server, job)
    job.wait_for_step(HOLD_AT - 1)
    run = server.wait_for_run(job.name)
    server.command("flow-run", "cancel", run["id"])
    job.wait_until_gone()
    assert sorted(job.lives()) == [(1, host, event) for host in (0, 1) for event in ("began", "left")]
    job.let_go_on()
    deployment = server.ask(DEPLOYMENT)["id"]
    again = server.ask(f"/deployments/{deployment}/create_flow_run", parameters=parameters_of(job))  # as the form does
    assert server.wait_for_end(run)["name"] == "Cancelled"
    assert server.wait_for_end(again)["name"] == "Completed"
    assert list(server.task_runs(again)) == [
        "stage_data", "check_quota", "provision_slice-2", "launch_training-2", "release_slice-2", "collect_results",
    ]  # fmt: skip
    result = json.loads((job.output / "result.json").read_text())
    assert result["value"] == {"total": TOTAL, "attempt": 2, "began_at": HOLD_AT + 1}
    assert not job.overlaps() and not job.processes()


def test_the_log_of_a_run_that_is_refused_ends_with_why_and_has_no_way_through_prefect(
    server: Server, worker: None
) -> None:
    deployment = server.ask(DEPLOYMENT)["id"]
    wrong = {"program": "tests/programs/counter.py:main", "accelerator": "v6e-17"}
    run = server.ask(f"/deployments/{deployment}/create_flow_run", parameters=wrong)
    assert server.wait_for_end(run)["type"] == "FAILED"
    assert server.log(run, "UsageError: Accelerator 'v6e-17'")
    printed = (server.folder / "worker.log").read_text()
    assert "UsageError: Accelerator 'v6e-17'" in printed
    assert "Traceback" not in printed and "NoneType: None" not in printed


@pytest.mark.long
def test_run_by_a_schedule(server: Server, schedule: str, scheduled_job: Job) -> None:
    run = server.wait_for_run(scheduled_job.name)
    server.change(schedule, active=False)
    assert run["auto_scheduled"]
    assert server.wait_for_end(run)["name"] == "Completed"
    result = json.loads((scheduled_job.output / "result.json").read_text())
    assert result["value"] == {"total": TOTAL, "attempt": 1, "began_at": 0}
    assert not scheduled_job.overlaps()
