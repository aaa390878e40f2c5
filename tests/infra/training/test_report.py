"""Reports: few writes, no waiting for values, and files that are right at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from prefect_tpu.infra import contract
from prefect_tpu.infra.contract import Event, Scratch
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.rehearsal import Rehearsal
from prefect_tpu.infra.training.progress import ProgressFiles
from prefect_tpu.infra.training.report import Reports


class Value:
    """A number that is computed later, as JAX's are; looking at it too early is an error here."""

    def __init__(self, number: float, ready: bool = True) -> None:
        self.number, self.ready, self.deleted = number, ready, False

    def is_ready(self) -> bool:
        return self.ready

    def block_until_ready(self) -> None:
        assert not self.deleted
        self.ready = True

    def is_deleted(self) -> bool:
        return self.deleted

    def __float__(self) -> float:
        assert not self.deleted
        self.ready = True
        return self.number


class Program:
    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 50.0
        self.reports = Reports(ProgressFiles(folder, 0.0), Rehearsal(), clock=lambda: self.now)

    def step(self, step: int, seconds: float, **metrics: Any) -> None:
        self.now += seconds
        self.reports.add(step, metrics)

    @property
    def progress(self) -> dict[str, Any]:
        return contract.read_json((self.folder / Scratch.PROGRESS).read_bytes(), "progress")

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = (self.folder / Scratch.EVENTS).read_text().splitlines()
        return [{key: value for key, value in json.loads(line).items() if key != "after"} for line in lines]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_the_first_step_is_written_at_once(program: Program) -> None:
    program.step(40, 3.0, loss=Value(0.5, ready=False))
    assert program.progress == {
        "step_seconds": None,
        "own_seconds": None,
        "version": contract.VERSION,
        "step": 40,
        "first_step": 40,
        "saved_step": None,
        "metrics": {"loss": 0.5},
        "reported_after": 53.0,
    }
    assert program.events == [{"event": Event.STEP, "step": 40, "loss": 0.5}]


def test_a_step_that_comes_again_is_a_sign_of_life_too(program: Program) -> None:
    for _ in range(3):
        program.step(7, 1.0)
    assert (program.progress["step"], program.progress["reported_after"]) == (7, 53.0)
    program.step(7, 0.01)
    program.reports.flush_step()
    assert program.progress["reported_after"] == 53.0, "nothing new to write at the end"


def test_writes_are_a_quarter_of_a_second_apart(program: Program) -> None:
    for step in range(1000):
        program.step(step, 0.01, loss=float(step))
    assert 36 <= len(program.events) <= 41
    assert program.progress["step"] >= 975


def test_values_of_the_last_two_steps_are_not_waited_for(program: Program) -> None:
    values = [Value(float(10 - step), ready=False) for step in range(5)]
    for step in range(3):
        program.step(step, 1.0, loss=values[step])
    assert [value.ready for value in values[:3]] == [True, False, False]
    assert (program.progress["step"], program.progress["metrics"]) == (2, {"loss": 10.0})
    program.step(3, 1.0, loss=values[3])
    assert [value.ready for value in values[:4]] == [True, True, False, False]
    assert (program.progress["step"], program.progress["metrics"]) == (3, {"loss": 9.0})
    assert [event["step"] for event in program.events] == [0, 1]


def test_the_newest_value_that_is_ready_is_shown(program: Program) -> None:
    program.step(0, 1.0, loss=Value(9.0))
    program.step(1, 1.0, loss=Value(8.0))
    program.step(2, 1.0, loss=Value(7.0, ready=False))
    assert (program.progress["step"], program.progress["metrics"]) == (2, {"loss": 8.0})


def test_a_value_donated_to_a_later_step_is_passed_over(program: Program) -> None:
    program.step(0, 1.0, count=Value(1.0))
    gone = Value(2.0, ready=False)
    program.step(1, 1.0, count=gone)
    gone.deleted = True
    program.step(2, 1.0, count=Value(3.0, ready=False))
    program.step(3, 1.0, count=Value(4.0))
    assert program.progress["metrics"] == {"count": 4.0}


def test_a_metric_may_have_any_name(program: Program) -> None:
    program.step(3, 1.0, name=1.0, event=2.0, after=3.0)
    assert program.progress["metrics"] == {"name": 1.0, "event": 2.0, "after": 3.0}
    (event,) = program.events
    assert (event["event"], event["name"], event["step"]) == ("step", 1.0, 3)


def test_the_end_is_complete(program: Program) -> None:
    for step in range(8):
        program.step(step, 0.001, loss=Value(float(step), ready=False))
    assert program.progress["step"] == 0
    program.reports.flush_step()
    assert (program.progress["step"], program.progress["metrics"]) == (7, {"loss": 0.0})
    program.reports.flush()
    assert (program.progress["step"], program.progress["metrics"]) == (7, {"loss": 7.0})
    program.reports.flush()
    assert [event["step"] for event in program.events] == [0, 7]


def test_a_long_runs_events_are_sparse(program: Program) -> None:
    program.step(0, 1.0)
    for step in range(1, 200):
        program.step(step, 1.0)
    assert len(program.events) == 200
    program.step(200, 100 * 3600.0)
    for step in range(201, 600):
        program.step(step, 1.0)
    assert len(program.events) == 202


def test_what_is_no_number_is_named(program: Program) -> None:
    with pytest.raises(UsageError, match="Metric 'loss' is no number but a list"):
        program.step(0, 1.0, loss=[1, 2])


def test_outside_a_job_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = ProgressFiles(None, 0.0)
    Reports(files, Rehearsal()).add(3, {"loss": 1.0})
    assert files.current.step == 3 and list(tmp_path.iterdir()) == []


def test_a_saved_step_stays_when_others_follow(program: Program, tmp_path: Path) -> None:
    files = ProgressFiles(tmp_path, 0.0)
    files.update(saved_step=4)
    Reports(files, Rehearsal()).add(5, {})
    assert (files.current.saved_step, files.current.step) == (4, 5)


def test_events_carry_seconds_since_the_runner_started(inside_job: Callable[..., Any], tmp_path: Path) -> None:
    import time

    files = ProgressFiles(tmp_path, time.monotonic() - 5)
    files.event(Event.RESTORED, step=1, attempt=2)
    (line,) = (tmp_path / Scratch.EVENTS).read_text().splitlines()
    assert 5 <= json.loads(line)["after"] < 65


@pytest.mark.parametrize("step", ["4", 2.0, None, Value(3.0)])
def test_a_step_that_is_no_whole_number_is_refused(program: Program, step: Any) -> None:
    with pytest.raises(UsageError, match=f"a {type(step).__name__} as its step: give the whole number"):
        program.step(step, 0.1)


def test_a_step_may_be_a_whole_number_of_any_library(program: Program) -> None:
    program.step(numpy.int64(4), 0.1)  # type: ignore[arg-type]
    assert program.progress["step"] == 4


def test_a_disk_that_takes_no_reports_does_not_end_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ProgressFiles(tmp_path / "not there", 0.0)
    for step in range(3):
        files.update(step=step)
        files.event(Event.STEP, step=step)
    assert capsys.readouterr().err.count("a report cannot be written and nobody sees it: [Errno 2]") == 1
    (tmp_path / "not there").mkdir()
    files.update(step=3)
    assert contract.read_json((tmp_path / "not there" / Scratch.PROGRESS).read_bytes(), "progress")["step"] == 3
