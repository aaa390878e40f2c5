"""Steps lost, steps done again, and the table people see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord, ProgramError
from prefect_tpu.infra.drills import parse_drill
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.rehearsal import Note, take_note
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.summary import (
    COLUMNS,
    TRACEBACK_LINES,
    Steps,
    drills_without_effect,
    failing_traceback,
    linked,
    markdown,
    notes,
    rows,
    steps,
)

LOST = failure(FailureKind.HOST_LOST, "Host 2 is gone.", host=2)


def attempt(number: int, first: int | None, last: int | None, saved: int | None, **changes: Any) -> AttemptSummary:
    values = {"accelerator": "v6e-16", "started": 10.0, "ended": 12.25, "outcome": "host_lost", "failure": LOST}
    return AttemptSummary(
        **{**values, "number": number, "first_step": first, "last_step": last, "saved_step": saved, **changes}
    )


def succeeded(number: int, first: int, last: int) -> AttemptSummary:
    return attempt(number, first, last, last, outcome="succeeded", failure=None)


@pytest.mark.parametrize(
    ("attempts", "counted"),
    [
        ([], []),
        ([succeeded(1, 0, 99)], [(100, 0, 0)]),
        ([attempt(1, 0, 59, 59), succeeded(2, 60, 99)], [(60, 0, 0), (40, 0, 0)]),  # preempted, saved
        ([attempt(1, 0, 59, 40), succeeded(2, 41, 99)], [(60, 0, 19), (59, 19, 0)]),  # killed
        ([attempt(1, 0, 59, None), succeeded(2, 0, 99)], [(60, 0, 60), (100, 60, 0)]),  # nothing saved
        ([attempt(1, None, None, None), succeeded(2, 0, 9)], [(0, 0, 0), (10, 0, 0)]),  # never met
        (  # the second ended before it came as far as the first
            [attempt(1, 0, 59, 40), attempt(2, 41, 45, None), succeeded(3, 41, 99)],
            [(60, 0, 19), (5, 5, 5), (59, 19, 0)],
        ),
        ([attempt(1, 0, 10, 10), attempt(2, 11, 20, 5)], [(11, 0, 0), (10, 0, 10)]),  # an older save keeps nothing
    ],
)
def test_steps_done_done_again_and_lost(attempts: list[AttemptSummary], counted: list[tuple[int, int, int]]) -> None:
    assert steps(attempts) == tuple(Steps(done=done, again=again, lost=lost) for done, again, lost in counted)


def result(output: str = "/out/digits", **changes: Any) -> JobResult:
    attempts = (attempt(1, 0, 59, 40), attempt(2, None, None, None, ended=None), succeeded(3, 41, 99))
    values = {"state": "succeeded", "attempts": attempts, "value": None, "failure": None}
    return JobResult(**{"job": "digits", "output": output, **values, **changes})


def test_one_row_per_attempt() -> None:
    assert rows(result()) == [
        ("1", "v6e-16", "host_lost", "2", "2.2", "0–59", "19", "0"),
        ("2", "v6e-16", "host_lost", "2", "0.0", "", "0", "0"),
        ("3", "v6e-16", "succeeded", "", "2.2", "41–99", "0", "19"),
    ]
    assert all(len(row) == len(COLUMNS) for row in rows(result()))


def test_attempts_in_different_places_say_where() -> None:
    first = attempt(1, 0, 59, 40, cluster="training", zone="us-east5-a")
    second = attempt(2, 41, 99, 99, cluster="training", zone="us-east5-b", instead_of="nothing came", failure=None)
    ended = result(attempts=(first, second))
    assert [row[1] for row in rows(ended)] == ["v6e-16 in us-east5-a", "v6e-16 in us-east5-b"]
    assert notes(ended) == ["Attempt 2 ran on v6e-16 in us-east5-b: nothing came."]
    assert [row[1] for row in rows(result(attempts=(first,)))] == ["v6e-16"]


def test_the_table_for_artifacts_says_how_it_ended_and_where_it_lies() -> None:
    text = markdown(result(state="failed", failure=LOST), b"a picture")
    lines = text.splitlines()
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") == len(COLUMNS) + 1
    assert "**failed** · attempts: 3 · steps lost: 19 · done again: 19" in text
    assert "Output: `/out/digits`" in text
    assert "Logs of attempt 3, a folder for each host: `/out/digits/attempts/3/hosts`" in text
    assert "Logs" not in markdown(result(attempts=()), None)
    assert f"host_lost: Host 2 is gone. {LOST.advice}" in text
    assert "![Loss](data:image/png;base64,YSBwaWN0dXJl)" in text
    assert "Loss" not in markdown(result(), None)
    assert "Value: `{'accuracy': 0.97}`" in markdown(result(value={"accuracy": 0.97}), None)


def test_what_lies_in_a_bucket_is_a_link_to_it() -> None:
    where = "https://console.cloud.google.com/storage/browser/b/jobs/digits"
    assert linked("gs://b/jobs/digits") == f"[`gs://b/jobs/digits`]({where})"
    assert linked("gs://b/new jobs/a(1)").endswith("/browser/b/new%20jobs/a%281%29)")
    assert linked("/out/digits") == "`/out/digits`"


def test_the_traceback_is_that_of_the_host_where_the_failure_began(storage: LocalStorage) -> None:
    failed = result(storage.url, state="failed", failure=LOST)
    assert failing_traceback(failed) is None
    for host in (1, 2):
        trace = f"host {host}\n" + "".join(f"line {number}\n" for number in range(200)) + "ValueError: bad"
        error = ProgramError(type="ValueError", message="bad", traceback=trace if host == 2 else "")
        storage.put(layout.record(3, host), HostRecord(attempt=3, host=host, exit_code=80, error=error).to_json())
    text = failing_traceback(failed)
    assert text is not None
    assert text.splitlines()[-2:] == ["line 199", "ValueError: bad"]
    assert len(text.splitlines()) == TRACEBACK_LINES
    assert failing_traceback(result(storage.url)) is None
    storage.put(layout.record(3, 2), b"{")
    assert failing_traceback(failed) is None


@pytest.mark.parametrize(
    ("drill", "struck", "sentence"),  # struck: (attempt, number); attempts 1 and 2 of the result failed, 3 succeeded
    [
        ("kill@step=5,host=1", (1, 6), None),
        ("preempt@step=90", None, "never struck: in no attempt its host reported a step that late."),
        ("kill@save=9", None, "never struck: in no attempt its host saved that often."),
        ("hang@attempt=7", None, "never struck: no attempt 7 began on its host."),
        ("stockout@attempt=7", None, "never struck: no attempt 7 began."),
        ("preempt@step=58", (3, 58), "struck at step 58 of attempt 3, which ended before it could leave."),
        ("stockout@save=2", (3, 2), "struck during save 2 of attempt 3, which ended before it could leave."),
        ("preempt@start", (3, None), "struck at the start of attempt 3, which ended before it could leave."),
        ("fail@step=3", (3, 4), "struck at step 4 of attempt 3, which took no harm: its program caught the exception."),
        ("stockout@attempt=3", (3, None), None),
        ("slow@step=3", (3, 3), None),
        ("orchestrator-kill@step=3", (3, 3), None),
    ],
)
def test_a_drill_that_came_to_nothing_is_told(
    storage: LocalStorage,
    make_job: Callable[..., SliceJob],
    drill: str,
    struck: tuple[int, int | None] | None,
    sentence: str | None,
) -> None:
    storage.put(layout.JOB, make_job(drills=(drill,)).to_json())
    if struck is not None:
        note = Note(drill=parse_drill(drill), attempt=struck[0], accelerator="v6e-16", number=struck[1])
        assert take_note(storage, 0, note)
    told = drills_without_effect(result(output=storage.url))
    assert told == ([] if sentence is None else [f"Drill {parse_drill(drill)} {sentence}"])


def test_a_job_without_drills_or_that_is_not_there_has_none_to_tell_of(
    storage: LocalStorage, make_job: Callable[..., SliceJob]
) -> None:
    assert drills_without_effect(result(output=f"{storage.url}/nowhere")) == []
    storage.put(layout.JOB, make_job().to_json())
    assert drills_without_effect(result(output=storage.url)) == []


def test_a_move_to_another_slice_is_told(tmp_path: Path) -> None:
    moved = attempt(2, 43, 99, 99, accelerator="v6e-8", instead_of="v6e-16 cannot be had: it is gone", failure=None)
    ended = result(str(tmp_path), attempts=(attempt(1, 0, 59, 42), moved))
    told = "Attempt 2 ran on v6e-8: v6e-16 cannot be had: it is gone."
    assert notes(ended) == [told]
    assert told in markdown(ended, None)


def test_an_attempt_that_waited_in_vain_ran_nowhere(tmp_path: Path) -> None:
    dry = failure(FailureKind.NO_CAPACITY, "No slice.")
    second = attempt(2, None, None, None, accelerator="v6e-8", instead_of="v6e-16 is dry", failure=dry)
    assert notes(result(str(tmp_path), state="failed", attempts=(attempt(1, 0, 59, 42), second), failure=dry)) == []


def test_a_host_that_kept_the_others_waiting_is_told_below_the_table(tmp_path: Path) -> None:
    slow = attempt(1, 0, 9, 9, outcome="succeeded", failure=None, slow_host="host 1 is slow: all wait for it")
    ended = result(str(tmp_path), attempts=(slow,))
    assert notes(ended) == ["In attempt 1 host 1 is slow: all wait for it."]
    assert "In attempt 1 host 1 is slow: all wait for it." in markdown(ended, None)
