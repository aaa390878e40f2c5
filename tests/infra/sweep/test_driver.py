"""Whoever drives a sweep may be killed at any write: the next one redoes nothing, keeps the budget, finds the same."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package; this module is for this folder

from sweep_world import Death, Died, MortalStorage, World  # noqa: E402

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Failure, FailureKind, JobFailed, PlatformError, SweepFailed, UsageError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.asked import Asked
from prefect_tpu.infra.sweep.chips import most_held
from prefect_tpu.infra.sweep.driver import SweepDriver
from prefect_tpu.infra.sweep.result import SweepResult, conclude

MOST_TURNS = 200
NO_QUOTA = Failure(kind=FailureKind.NO_QUOTA, retryable=False, message="two hosts are too many.", advice="")
Asking = Callable[..., Asked]


def silent(text: str) -> None:
    return None


def drive(world: World, asked: Asked, death: Death) -> SweepResult:
    """To its end: each turn the oldest job that is driven comes to its own."""
    driver = SweepDriver(MortalStorage(world.output, death), asked, silent)
    driven: list[Any] = []
    for _ in range(MOST_TURNS):
        if driver.is_over:
            return conclude(driver)
        for call in driver.turn():
            world.drive(call)
            driven.append(call)
        if driven:
            call = driven.pop(0)
            world.end(call.job)
            driver.ended(call.trial, None)
    raise AssertionError("the sweep never ends")


def plain(result: SweepResult) -> Any:
    """Without what depends on where it lies."""
    return result.best, result.value, result.params, result.trials


def test_a_sweep_keeps_to_its_budget_and_finds_the_best(make_asked: Asking, tmp_path: Path) -> None:
    world = World(output=tmp_path)
    result = drive(world, make_asked(trials=6, chips=2, pruner="none"), Death())
    assert [trial.state for trial in result.trials] == ["complete"] * 6
    assert result.value == min(trial.value or 0.0 for trial in result.trials) == result.params["lr"]
    assert result.output == str(tmp_path / f"digits-{result.best}") and result.checkpoint is None
    assert world.most == 2 and set(world.starts.values()) == {1}


@pytest.mark.parametrize(("pruner", "after"), [("none", False), ("halving", True)])
def test_killed_at_every_single_write(make_asked: Asking, tmp_path: Path, pruner: str, after: bool) -> None:
    points = tuple({"params": {"lr": lr}} for lr in (1e-3, 1e-2, 1e-1))
    asked = make_asked(trials=3, chips=2, pruner=pruner, seed=3, sampler="random", first=points)
    unharmed = Death()
    whole = drive(World(output=tmp_path / "whole"), asked, unharmed)
    assert len([trial for trial in whole.trials if trial.state == "pruned"]) == (0 if pruner == "none" else 1)
    assert unharmed.writes > 10
    for at in range(1, unharmed.writes + 1):
        world = World(output=tmp_path / str(at))
        with pytest.raises(Died):
            drive(world, asked, Death(at, after=after))
        again = drive(world, asked, Death())
        if pruner == "none":
            assert plain(again) == plain(whole), at
        else:  # who is given up depends on who was complete by then
            assert plain(again)[:3] == plain(whole)[:3], at
            assert {trial.state for trial in again.trials} <= {"complete", "pruned"}, at
        assert world.most <= 2 and set(world.starts.values()) == {1}, at
        driver = SweepDriver(LocalStorage(world.output), asked, silent)
        assert most_held(driver.chips.moves()) <= 2 and driver.chips.held() == {}, at


def test_killed_again_and_again(make_asked: Asking, tmp_path: Path) -> None:
    asked = make_asked(trials=6, chips=3, pruner="none", seed=9)
    world = World(output=tmp_path / "killed")
    whole = drive(World(output=tmp_path / "whole"), asked, Death())
    for at in range(1, 100):
        try:
            result = drive(world, asked, Death(1 + at % 5))
        except Died:
            continue
        break
    assert plain(result) == plain(whole)
    assert world.most <= 3 and set(world.starts.values()) == {1}


def test_who_leaves_has_its_jobs_stopped_and_the_same_sweep_goes_on(make_asked: Asking, tmp_path: Path) -> None:
    asked, world = make_asked(trials=3, chips=2, pruner="none"), World(output=tmp_path)
    driver = SweepDriver(LocalStorage(tmp_path), asked, silent)
    calls = driver.turn()
    for call in calls:
        world.drive(call)
    driver.leave("somebody wants it to stop")
    assert not driver.is_over and driver.turn() == []
    for call in calls:
        assert history.is_stop_asked(LocalStorage(call.folder))
        world.end(call.job)
        driver.ended(call.trial, None)
    assert driver.is_over and driver.chips.held() == {}
    result = drive(world, asked, Death())
    assert [trial.state for trial in result.trials] == ["complete"] * 3
    assert world.starts == {"digits-0": 2, "digits-1": 2, "digits-2": 1} and world.most == 2


def test_run_again_with_fewer_chips_it_drives_no_more_than_those(make_asked: Asking, tmp_path: Path) -> None:
    world = World(output=tmp_path)
    for call in SweepDriver(LocalStorage(tmp_path), make_asked(trials=4, chips=3, pruner="none"), silent).turn():
        world.drive(call)  # and then the process is killed
    fewer = make_asked(trials=4, chips=1, pruner="none")
    driver = SweepDriver(LocalStorage(tmp_path), fewer, silent)
    assert [call.trial for call in driver.turn()] == [0] and driver.turn() == []
    result = drive(world, fewer, Death())
    assert [trial.state for trial in result.trials] == ["complete"] * 4 and set(world.starts.values()) == {1}


def test_a_trial_that_may_not_go_on_now_is_not_given_up(make_asked: Asking, tmp_path: Path) -> None:
    asked, world = make_asked(trials=1), World(output=tmp_path)
    driver = SweepDriver(LocalStorage(tmp_path), asked, silent)
    (call,) = driver.turn()
    world.drive(call)
    driver.leave("somebody wants it to stop")
    driver.turn()
    world.end(call.job)
    driver.ended(call.trial, None)
    again = SweepDriver(LocalStorage(tmp_path), asked, silent)
    (call,) = again.turn()
    again.ended(call.trial, JobFailed(call.job, NO_QUOTA))  # before its job began anew
    assert [trial.state for trial in again.study.trials()] == ["open"]
    with pytest.raises(JobFailed, match="no_quota"):
        assert again.is_over
    assert [trial.state for trial in drive(world, asked, Death()).trials] == ["complete"]


def test_a_trial_that_was_given_up_and_then_deleted_is_over(make_asked: Asking, tmp_path: Path) -> None:
    asked, world = make_asked(trials=2, chips=2), World(output=tmp_path)
    driver = SweepDriver(LocalStorage(tmp_path), asked, silent)
    for call in driver.turn():
        world.drive(call)
    driver.storage.put(layout.pruned(1), b'{"version":1,"reason":"it is bad"}')
    shutil.rmtree(tmp_path / "digits-1")
    result = drive(world, asked, Death())
    assert [trial.state for trial in result.trials] == ["complete", "pruned"]


def test_a_job_that_was_stopped_for_the_whole_sweep_makes_it_leave(make_asked: Asking, tmp_path: Path) -> None:
    asked, world = make_asked(trials=2, chips=2), World(output=tmp_path)
    driver = SweepDriver(LocalStorage(tmp_path), asked, silent, frozenset({"the run is being cancelled"}))
    alone, meant_for_all = driver.turn()
    for call, reason in ((alone, "prefect-tpu stop"), (meant_for_all, "the run is being cancelled")):
        world.drive(call)
        history.ask_to_stop(LocalStorage(call.folder), reason)
        world.end(call.job)
        driver.ended(call.trial, None)
    assert [trial.state for trial in driver.study.trials()] == ["pruned", "open"]
    assert driver.leaves == "the run is being cancelled" and driver.is_over


@pytest.mark.parametrize("error", [UsageError("the program is gone"), None])
def test_a_job_that_could_not_be_carried_out_ends_the_sweep_with_why(
    make_asked: Asking, tmp_path: Path, error: Exception | None
) -> None:
    driver = SweepDriver(LocalStorage(tmp_path), make_asked(trials=2, chips=1), silent)
    (call,) = driver.turn()
    driver.ended(call.trial, error)
    assert driver.turn() == []
    with pytest.raises(PlatformError if error is None else UsageError, match="digits-0|the program is gone"):
        assert driver.is_over


def test_without_any_value_nothing_is_written(make_asked: Asking, tmp_path: Path) -> None:
    world = World(output=tmp_path)
    with pytest.raises(SweepFailed, match="No trial of sweep 'digits' has a value of 'accuracy': 2 failed"):
        drive(world, make_asked(trials=2, metric="accuracy"), Death())
    assert not (tmp_path / ".sweeps" / "digits" / "result.json").exists()
