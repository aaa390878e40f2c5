"""The same commands of jobs in a bucket: found, listed, shown, told to stop, and whose driver is elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import HostRecord, Progress
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.places import driver_log
from prefect_tpu.infra.scratch import HostProgress
from prefect_tpu.infra.storage import Storage

Shell = Callable[..., Any]
ELSEWHERE = {"token": "theirs", "host": "another-machine", "pid": 7, "born": 0.0, "renewals": 1}


@pytest.fixture
def shell(bucket: str, prefect_tpu: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("PREFECT_TPU_OUTPUT", f"{bucket}/jobs")
    return prefect_tpu


@pytest.fixture
def running(bucket: str, jobs_in: Callable[[str], Any]) -> Storage:
    """A job of two hosts that train, driven from another machine; another folder and a finished job lie beside it."""
    jobs = jobs_in(f"{bucket}/jobs")
    jobs.storage("notes").put("about.txt", b"no job")
    jobs.asked("done")
    jobs.ended("done", value=0.97)
    digits: Storage = jobs.asked("digits")
    jobs.planned("digits", 1, backend="jobset", scratch="/scratch")
    for host in (0, 1):
        digits.put(layout.started(1, host), contract.write_json({"pid": 1}))
        told = HostProgress(progress=Progress(step=40 + host, first_step=0, metrics={"loss": 0.5}), joined=True)
        digits.put(layout.progress(1, host), told.to_json())
    digits.put(layout.LEASE, json.dumps(ELSEWHERE).encode())
    return digits


def test_jobs_are_listed(shell: Shell, running: Storage) -> None:
    rows = {line.split()[0]: line.split() for line in shell("list").lines[1:]}
    assert {name: row[1:5] for name, row in rows.items()} == {
        "digits": ["running", "v6e-16", "1", "41/60"],
        "done": ["succeeded", "v6e-16", "-", "-"],
    }
    assert rows["digits"][-4:] == ["process", "7", "on", "another-machine"]


def test_a_job_is_shown(shell: Shell, running: Storage) -> None:
    sheet = shell("status", "digits").out
    assert "process 7 on another-machine" in sheet and "loss 0.5" in sheet and running.url in sheet
    assert "prefect-tpu attach digits\n" in sheet, "its output is the default"
    (seen,) = (job for job in shell("list", "--json").json if job["name"] == "digits")
    assert (seen["state"], seen["step"], [host["step"] for host in seen["hosts"]]) == ("running", 41, [40, 41])


def test_a_wrong_name_is_answered_with_the_nearest(shell: Shell, running: Storage) -> None:
    ended = shell("status", "digts")
    assert ended.status == 4 and "Did you mean 'digits'" in ended.err


def test_what_waits_for_its_slice_says_for_what(shell: Shell, running: Storage) -> None:
    for host in (0, 1):
        running.delete(layout.started(1, host))
    running.put(layout.WAITING, contract.write_json({"attempt": 1, "reason": "16 chips are in use"}))
    assert "waits for  16 chips are in use" in shell("status", "digits").out
    assert "queued" in shell("list").out


def test_a_driver_on_another_machine_is_told_by_the_bucket_alone(shell: Shell, running: Storage) -> None:
    ended = shell("stop", "digits", "--no-wait")
    assert ended.status == 0 and history.is_stop_asked(running)
    assert ended.out == (
        "digits is told to stop; process 7 on another-machine sees to it, if it still lives: that cannot be seen from"
        " this machine.\n"
    )


def test_what_ended_is_told_again(shell: Shell, running: Storage) -> None:
    assert "done succeeded: 0.97" in shell("attach", "done").err


def test_nothing_of_a_bucket_is_a_file_to_reap(shell: Shell, running: Storage) -> None:
    running.put("attempts/1/hosts/0/.tmp-half", b"")
    record = HostRecord(attempt=1, host=0, exit_code=0)
    running.put(layout.record(1, 0), record.to_json())
    assert "Nothing to reap" in shell("reap", "--dry-run").err


def test_the_log_of_a_driver_lies_on_its_machine(running: Storage, tmp_path: Path) -> None:
    log = driver_log(running, {"XDG_DATA_HOME": str(tmp_path)})
    assert log.parent == tmp_path / "prefect-tpu/drivers" and log.name.startswith("digits-")
    assert driver_log(running, {"XDG_DATA_HOME": str(tmp_path)}) == log
