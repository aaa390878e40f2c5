"""A Python call is a flow run: its value comes back, and every step of it is seen on the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect_jobs import PROGRAM, Job, Orchestrator, Orchestrators
from prefect_server import Server

from prefect_tpu.infra.backends.local_slices import LocalSlices
from prefect_tpu.infra.places import data_folder

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

STEPS = 20
TOTAL = sum(range(STEPS))


@pytest.fixture(scope="module", autouse=True)
def drilled(orchestrators: Orchestrators, new_job: Callable[[str], Job]) -> tuple[Job, Orchestrator]:
    """A run that loses a host and waits before its second attempt, while others are looked at."""
    job = new_job("drilled")
    params = {"steps": STEPS, "hold_at": 15}
    return job, orchestrators.start(job, program=PROGRAM, params=params, drills=["kill@step=10,host=1"])


def test_a_function_returns_the_leaders_value_and_every_task_is_seen(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job]
) -> None:
    job = new_job("function")
    assert orchestrators.start(job, params={"width": 3}).result() == {
        "value": "(3+2j)",
        "state": "succeeded",
        "attempts": [1],
    }
    run = server.wait_for_run(job.name)
    assert run["state"]["name"] == "Completed"
    assert server.task_runs(run) == dict.fromkeys(
        ("stage_data", "check_quota", "provision_slice-1", "launch_training-1", "release_slice-1", "collect_results"),
        "Completed",
    )
    assert job.is_slice_free() and not job.processes()


def test_a_call_works_where_an_event_loop_runs(orchestrators: Orchestrators, new_job: Callable[[str], Job]) -> None:
    found = orchestrators.start(new_job("notebook"), in_loop=True, program=PROGRAM, params={"steps": STEPS}).result()
    assert found["value"] == {"total": TOTAL, "attempt": 1, "began_at": 0}


def test_a_failed_job_is_a_failed_run_that_says_what_host_and_what_to_do(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job]
) -> None:
    job = new_job("failing")
    found = orchestrators.start(job, program=PROGRAM, params={"steps": STEPS, "fail_at": 2}).result()
    assert found["error"] == "JobFailed"
    state = server.wait_for_end(server.wait_for_run(job.name))
    assert state["type"] == "FAILED"
    for words in ("program_error on host", "ValueError: step 2 was asked to fail", "Correct the program"):
        assert words in found["message"] and words in state["message"]
    assert 'raise ValueError(f"step {step} was asked to fail")' in found["notes"][0]
    assert job.is_slice_free() and not job.processes()


@pytest.mark.parametrize("as_flow", [False, True])
@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("no-such-slice", {"accelerator": "v6e-17"}, "Accelerator 'v6e-17'"),
        ("no-such-drill", {"drills": ["quake@step=1"]}, "Drill 'quake@step=1' is not known"),
    ],
)
def test_a_call_that_cannot_be_carried_out_fails_with_what_to_change(
    server: Server,
    orchestrators: Orchestrators,
    new_job: Callable[[str], Job],
    name: str,
    wrong: dict[str, Any],
    words: str,
    as_flow: bool,
) -> None:
    job = new_job(name)
    found = orchestrators.start(job, as_flow=as_flow, program=PROGRAM, **wrong).result()
    assert found["error"] == "UsageError" and words in found["message"]
    assert not job.output.exists()
    if as_flow:  # as a deployment runs it; a Python call asks the server for nothing
        state = server.wait_for_end(server.wait_for_run(job.name))
        assert state["type"] == "FAILED"
        assert "UsageError" in state["message"] and words in state["message"]
        assert server.task_runs(server.wait_for_run(job.name)) == {"stage_data": "Failed"}
    else:
        assert server.run_of(job.name) is None


def test_where_no_slice_is_to_be_had_that_task_fails_and_none_comes_after_it(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job]
) -> None:
    job = new_job("no-slice")
    slices = LocalSlices(data_folder(job.environment) / "slices", 1)
    taken = slices.take("somebody else's")
    assert not isinstance(taken, str)
    found = orchestrators.start(job, program=PROGRAM, timing={"provision_timeout": 1}, as_flow=True).result()
    slices.give_back(taken)
    assert found["error"] == "JobFailed" and "provision_timeout" in found["message"]
    run = server.wait_for_run(job.name)
    assert server.task_runs(run) == {
        "stage_data": "Completed", "check_quota": "Completed", "provision_slice-1": "Failed",
    }  # fmt: skip
    assert "provision_timeout" in server.wait_for_end(run)["message"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"PREFECT_API_URL": "http://user:secret@127.0.0.1:1/api"},
            "PlatformError: The Prefect server at http://127.0.0.1:1/api cannot be reached: ",
        ),
        ({"PREFECT_SERVER_EPHEMERAL_ENABLED": "false"}, "PlatformError: No Prefect server is named, and this profile"),
    ],
)
def test_a_server_that_is_not_to_be_had_is_named_with_what_to_do(
    new_job: Callable[[str], Job], settings: dict[str, str], says: str
) -> None:
    job = new_job("unreachable")
    job.folder.mkdir(parents=True, exist_ok=True)
    code = f"import prefect_tpu; prefect_tpu.train({PROGRAM!r}, 'cpu', name='unreachable')"
    command = [sys.executable, "-P", "-c", code]
    ended = subprocess.run(command, env={**os.environ, **job.environment, **settings}, capture_output=True, text=True)
    lines = ended.stderr.splitlines()
    assert ended.returncode == 1 and len(lines) < 10, ended.stderr
    assert says in lines[-1] and "secret" not in ended.stderr
    assert "`prefect server start`" in lines[-1] and "`prefect profile use ephemeral`" in lines[-1]
    assert not job.output.exists()


@pytest.fixture(scope="module")
def remote(server: Server, new_job: Callable[[str], Job]) -> dict[str, dict[str, Any]]:
    """What came of the calls of `remote.py`."""
    job = new_job("remote")
    job.folder.mkdir(parents=True, exist_ok=True)
    place = job.folder / "remote.json"
    command = [sys.executable, "-P", str(Path(__file__).with_name("remote.py")), str(place)]
    environment = {**server.environment, **job.environment}
    ended = subprocess.run(command, env=environment, cwd=job.folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert not job.processes() and job.is_slice_free()
    return json.loads(place.read_text())  # type: ignore[no-any-return]


def test_a_decorated_function_returns_the_leaders_value(remote: dict[str, dict[str, Any]]) -> None:
    value, drawn, host = remote["total"]["value"]
    assert (value, host) == (18.0, 0)
    assert remote["again"]["value"] == [18.0, drawn, 0], "the same call by the same name is the same job"
    assert remote["other"]["error"] == "Conflict" and "'named'" in remote["other"]["message"]
    assert remote["gather"]["value"] == [[0, "a"], [1, "a"]]


def test_a_decorated_method_works_inside_a_flow_and_where_an_event_loop_runs(remote: dict[str, dict[str, Any]]) -> None:
    assert (remote["flow"], remote["loop"]) == ({"value": 6}, {"value": 15})


def test_what_a_function_raises_is_raised_again_with_where(remote: dict[str, dict[str, Any]]) -> None:
    wrong = remote["wrong"]
    assert (wrong["error"], wrong["code"], wrong["cause"]) == ("Wrong", 7, "JobFailed")
    assert wrong["notes"][0].startswith("Raised on host 0 in attempt 1:\nTraceback")
    assert 'remote.py"' in wrong["notes"][0] and "raise error  # as it was sent" in wrong["notes"][0]


@pytest.mark.parametrize(("name", "words"), [("fragile", "Fragile: 1 and 2"), ("exit", "3")])
def test_what_cannot_be_raised_again_is_a_failed_job(remote: dict[str, dict[str, Any]], name: str, words: str) -> None:
    found = remote[name]
    assert found["error"] == "JobFailed"
    assert "program_error on host 0" in found["message"] and words in found["message"]
    assert "The host's traceback" in found["notes"][0]


def test_each_attempt_is_seen_under_its_own_name_with_its_progress(
    server: Server, drilled: tuple[Job, Orchestrator]
) -> None:
    job, caller = drilled
    run = server.wait_for_run(job.name)
    assert server.log(run, "Attempt 1 ended").startswith("Attempt 1 ended: host_lost on host 1: ")
    assert "next attempt in" in server.log(run, "next attempt in")
    job.let_go_on()
    assert caller.result()["attempts"] == [1, 2]
    assert [name for name in server.task_runs(run) if name[-1] in "12"] == [
        f"{task}-{attempt}" for attempt in (1, 2) for task in ("provision_slice", "launch_training", "release_slice")
    ]
    assert server.wait_for_end(run)["type"] == "COMPLETED"
    shown = {artifact["key"]: artifact for artifact in server.artifacts(run)}
    bars = [artifact for artifact in server.artifacts(run) if artifact["type"] == "progress"]
    assert {bar["key"] for bar in bars} == {"progress-drilled"}
    assert max(bar["data"] for bar in bars) == 100.0
    assert any(f"done: {STEPS} of {STEPS} steps" in bar["description"] for bar in bars)
    table = shown["attempts-drilled"]["data"]
    assert "host_lost | 1 |" in table and "steps lost: " in table and "![Loss](data:image/png;base64," in table
