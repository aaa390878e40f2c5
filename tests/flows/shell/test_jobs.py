"""`list`, `status`, `logs`, `stop` and `attach` of jobs whose files lie there; nothing runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Activity, write_json
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.launcher.history import is_stop_asked
from prefect_tpu.infra.pods import PodSettings

Shell = Callable[..., Any]


@pytest.fixture
def some(jobs: Any) -> Any:
    """One that succeeded in its second attempt, one that nobody drives, one that failed, one that has not begun."""
    jobs.asked("digits")
    jobs.planned("digits", 1)
    jobs.attempt_ended("digits", 1, FailureKind.PREEMPTED, first_step=0, last_step=20, saved_step=20)
    jobs.planned("digits", 2)
    for host in (0, 1):
        jobs.running("digits", 2, host)
        jobs.recorded("digits", 2, host, step=59, first_step=21, saved_step=59)
    jobs.attempt_ended("digits", 2, first_step=21, last_step=59, saved_step=59)
    jobs.ended("digits", value={"accuracy": 0.97})
    jobs.asked("left", drills=("preempt@step=40,host=1",))
    jobs.planned("left", 1)
    jobs.running("left", 1, 0, step=41, metrics={"loss": 0.5})
    jobs.running("left", 1, 1, step=40, saved_step=39)
    silence = {"silent_for": 65.0, "activity": Activity.COMPILING, "step": 40, "reported_after": 1.0}
    jobs.storage("left").put(layout.silence(1, 1), write_json(silence))
    jobs.asked("broken")
    jobs.planned("broken", 1)
    jobs.attempt_ended("broken", 1, FailureKind.PROGRAM_ERROR)
    jobs.ended("broken", FailureKind.PROGRAM_ERROR)
    jobs.asked("later", accelerators=("v6e-8", "cpu"))
    for age, name in enumerate(("later", "broken", "left", "digits")):
        os.utime(jobs.storage(name).path(layout.JOB), (1e9 - age, 1e9 - age))
    return jobs


def test_the_list_is_a_table_oldest_first(shell: Shell, some: Any) -> None:
    ended = shell("list")
    rows = [line.split() for line in ended.lines]
    assert rows[0] == ["NAME", "STATE", "ACCELERATOR", "ATTEMPT", "STEP", "AGE", "DRIVER"]
    assert [row[:5] for row in rows[1:]] == [
        ["digits", "succeeded", "v6e-16", "2", "59/60"],
        ["left", "running", "v6e-16", "1", "41/60"],
        ["broken", "failed", "v6e-16", "1", "-"],
        ["later", "queued", "v6e-8", "-", "-"],
    ]
    assert [row[-1] for row in rows[1:]] == ["-", "nobody", "-", "nobody"]
    assert ended.status == 0 and all(line == line.rstrip() for line in ended.lines)


def test_the_list_says_where_a_job_is_that_may_be_in_several_places(shell: Shell, jobs: Any) -> None:
    jobs.asked("plain")
    jobs.asked(
        "moves", backend="jobset", pods=PodSettings(image="python", cluster="here", fallback_clusters=("there",))
    )
    jobs.planned("moves", 1, cluster="there")
    rows = {line.split()[0]: line for line in shell("list").lines}
    assert rows["NAME"].split()[3] == "WHERE"
    assert "v6e-16       cluster there  1" in rows["moves"] and "there" not in rows["plain"]
    seen = shell("status", "moves", "--json").json
    assert (seen["cluster"], seen["zone"], seen["where"]) == ("there", None, "cluster there")
    assert "of cluster 'there'" in shell("status", "moves").out


def test_the_list_may_be_of_one_state_and_in_json(shell: Shell, some: Any) -> None:
    assert [job["name"] for job in shell("list", "--state", "running", "--state", "queued", "--json").json] == [
        "left",
        "later",
    ]
    wrong = shell("list", "--state", "runing")
    assert (wrong.status, wrong.out) == (2, "") and "--state 'runing' is no state of a job" in wrong.err


def test_a_damaged_job_does_not_hide_the_others(shell: Shell, some: Any) -> None:
    some.storage("broken").put(layout.JOB, b"{")
    ended = shell("list")
    assert [line.split()[:2] for line in ended.lines[1:]][0] == ["broken", "unreadable"]
    assert len(ended.lines) == 5 and "broken: job.json is damaged" in ended.err
    assert [job for job in shell("list", "--json").json if job["state"] == "unreadable"][0]["error"]
    assert shell("status", "broken").status == 3


def test_an_empty_output_has_no_jobs(shell: Shell, output: Path) -> None:
    ended = shell("list")
    assert (ended.status, ended.out, ended.err) == (0, "", "No jobs.\n") and not output.exists()
    assert shell("list", "--json").json == []


@pytest.mark.parametrize("command", ["status", "logs", "stop", "attach"])
def test_a_name_that_is_not_there_is_answered_with_the_nearest(shell: Shell, some: Any, command: str) -> None:
    ended = shell(command, "digts")
    assert (ended.status, ended.out) == (4, "")
    assert ended.err.startswith("prefect-tpu: There is no job 'digts' in ") and "Did you mean 'digits'?" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert shell(command, "digts", "--json").json["kind"] == "NoSuchJob"


def test_the_status_of_a_job_that_ended(shell: Shell, some: Any) -> None:
    ended = shell("status", "digits")
    assert ended.lines[0].startswith("digits · attempt 2 on v6e-16 · succeeded · ")
    for said in ('value      {"accuracy": 0.97}', "saved      step 59", f"files      {some.storage('digits').url}"):
        assert said in ended.lines
    table = [line.split() for line in ended.lines if line.startswith(("1  ", "2  "))]
    assert ["1", "v6e-16", "preempted", "1", "1m5s", "0–20", "20", "0", "0"] in table
    assert ended.lines[-1] == "What it wrote: prefect-tpu logs digits"


def test_the_status_of_a_job_that_nobody_drives(shell: Shell, some: Any) -> None:
    said = shell("status", "left").out
    assert "42 of 60 steps, loss 0.5, step 39 saved" in said
    assert "host 1 silent for 1m5s, compiling" in said
    assert "driven by  nobody" in said and "preempt@step=40,host=1 (is to come)" in said
    assert "Nobody drives it. To go on: prefect-tpu attach left" in said


def test_the_status_of_a_failed_job_says_why_and_what_to_do(shell: Shell, some: Any) -> None:
    said = shell("status", "broken").out
    assert "program_error on host 1: program_error it was." in said
    assert "Why: prefect-tpu logs broken --host 1 --tail 30" in said and "--name broken" in said
    assert shell("status", "later").lines[0].startswith("later · v6e-8 · queued")


def test_a_job_that_ended_before_it_began_has_no_logs_and_no_checkpoint(shell: Shell, some: Any) -> None:
    some.ended("later", FailureKind.NO_CAPACITY)
    said = shell("status", "later").lines
    assert said[-1] == "To begin it: run the same command with --name later"
    assert not any(line.startswith("Why") for line in said)


def test_what_to_do_next_names_an_output_that_is_not_the_default(
    shell: Shell, some: Any, output: Path, tmp_path: Path
) -> None:
    assert shell("status", "left").lines[-1] == "To end it:  prefect-tpu stop left"
    other = tmp_path / "other jobs"
    output.rename(other)
    assert (
        shell("status", "left", "--output", other).lines[-1] == f"To end it:  prefect-tpu stop left --output '{other}'"
    )


def test_a_status_for_scripts(shell: Shell, some: Any) -> None:
    told = shell("status", "left", "--json").json
    assert (told["state"], told["step"], told["saved_step"], told["driver"]) == ("running", 41, 39, None)
    assert told["hosts"][1]["activity"] == "compiling" and told["hosts"][0]["metrics"] == {"loss": 0.5}
    watched = [json.loads(line) for line in shell("status", "digits", "--watch", "--json").lines]
    assert [seen["state"] for seen in watched] == ["succeeded"], "it has its end"


def test_logs_are_the_leaders_or_prefixed(shell: Shell, some: Any) -> None:
    some.wrote("digits", 1, 0, "first attempt\n")
    some.wrote("digits", 2, 0, "one\n[two] \x1b[31mred\x1b[0m\nthree")
    some.wrote("digits", 2, 1, "of host 1\n")
    assert shell("logs", "digits").out == "one\n[two] \x1b[31mred\x1b[0m\nthree\n"
    assert shell("logs", "digits", "--tail", "1").out == "three\n"
    assert shell("logs", "digits", "--tail", "0").out == ""
    assert shell("logs", "digits", "--attempt", "1").out == "first attempt\n"
    assert shell("logs", "digits", "--host", "1").out == "of host 1\n"
    assert shell("logs", "digits", "--all", "--tail", "1").lines == ["host 0 | three", "host 1 | of host 1"]
    assert shell("logs", "digits", "--follow", "--tail", "1").out == "three\n", "it has its end"
    some.wrote("left", 1, 0, "last words\n")
    assert shell("logs", "left", "--follow").out == "last words\n", (
        "its hosts are gone and nobody begins another attempt"
    )
    assert '{"attempt": 2, "host": 1, "line": "of host 1"}' in shell("logs", "digits", "--all", "--json").lines
    for words in ((), ("--follow",)):
        none = shell("logs", "later", *words)
        assert (none.out, none.err) == ("", "No attempt has begun, so no host has written anything yet.\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--attempt", "7"), "has no attempt 7. It has attempts 1 to 2."),
        (("--host", "2"), "Attempt 2 has no host 2: it has 2, counted from 0."),
    ],
)
def test_logs_that_are_not_there(shell: Shell, some: Any, words: tuple[str, ...], says: str) -> None:
    ended = shell("logs", "digits", *words)
    assert ended.status == 2 and says in ended.err


def test_a_job_that_has_ended_is_neither_stopped_nor_begun_again(shell: Shell, some: Any) -> None:
    stopped = shell("stop", "broken")
    assert (stopped.status, stopped.out) == (0, "broken failed: program_error on host 1: program_error it was.\n")
    assert not is_stop_asked(some.storage("broken"))
    assert shell("stop", "digits", "--json").json["state"] == "succeeded"


def test_a_wrong_time_is_refused_before_anything_is_asked(shell: Shell, some: Any) -> None:
    ended = shell("stop", "left", "--timeout", "soon")
    assert ended.status == 2 and "--timeout 'soon' is no duration" in ended.err
    assert not is_stop_asked(some.storage("left"))
