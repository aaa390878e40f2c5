"""A whole sweep through Prefect: its budget, its best trial, what is given up, how it stops and goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from limited_chips import limited
from prefect_jobs import Orchestrators
from prefect_server import Server, wait_for
from sweep_runs import PROGRAM, SPACE, Sweep

from prefect_tpu.infra import contract, layout

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

CHIP = {"accelerator": "cpu", "sampler": "random", "pruner": "none"}


def sweep_run(server: Server, sweep: Sweep) -> dict[str, Any]:
    return server.wait_for_run(sweep.name)


def test_six_trials_on_two_chips_find_the_best_and_show_it(
    server: Server, orchestrators: Orchestrators, new_sweep: Callable[..., Sweep]
) -> None:
    sweep = new_sweep("six")
    first = [
        {"params": {"x": 5.0}},
        {"params": {"x": 3.0}, "priority": 1},
    ]
    asked = {"program": PROGRAM, "space": SPACE, "trials": 6, "chips": 2, "first": first, **CHIP}
    found = orchestrators.start(sweep, sweep=True, **asked).result()
    assert (found["best"], found["value"], found["params"]) == (0, 0.0, {"x": 3.0})
    assert found["output"] == str(sweep.trial(0)) and found["checkpoint"] is None
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 6
    assert found["trials"][1]["params"] == {"x": 5.0}
    for trial in found["trials"]:
        assert trial["value"] == pytest.approx((trial["params"]["x"] - 3) ** 2)
        assert sweep.lives_of(trial["number"]) == ["began", "left"]
    assert sweep.most_held() == 2 and sweep.most_living() <= 2 and sweep.held() == {}
    assert_is_seen(server, sweep)
    stored = json.loads((Path(sweep.storage.url) / layout.RESULT).read_text())
    assert {name: stored[name] for name in found} == found
    again = orchestrators.start(sweep, sweep=True, **asked).result()
    assert again == found and sweep.lives_of(0) == ["began", "left"]
    other = orchestrators.start(sweep, sweep=True, **{**asked, "seed": 1}).result()
    assert other["error"] == "Conflict" and "seed was 0 and is 1" in other["message"]


def assert_is_seen(server: Server, sweep: Sweep) -> None:
    """Every trial is a task and a flow run of its own, and the end is a table and a picture."""
    run = sweep_run(server, sweep)
    assert server.wait_for_end(run)["type"] == "COMPLETED"
    tasks = server.task_runs(run)
    assert {f"trial-{number}" for number in range(6)} <= set(tasks) and tasks["collect_trials"] == "Completed"
    for number in range(6):
        of_trial = server.wait_for_run(layout.trial_job(sweep.name, number))
        assert of_trial["state"]["type"] == "COMPLETED"
        assert all(line.startswith(f"trial {number}: ") for line in server.log_lines(of_trial))
    shown = {artifact["key"]: artifact for artifact in server.artifacts(run)}
    assert "![Trials](data:image/png;base64," in shown["sweep-six"]["data"]
    table = json.loads(shown["trials-six"]["data"])
    assert (table[0]["trial"], table[0]["state"], table[0]["params.x"]) == (0, "complete", "3.0")
    assert len(table) == 6


@pytest.mark.long
def test_a_bad_trial_is_stopped_early(
    server: Server, orchestrators: Orchestrators, new_sweep: Callable[..., Sweep]
) -> None:
    sweep = new_sweep("pruned", slices=3)
    space = {"x": {"low": 0.0, "high": 100.0}, "steps": [100, 100_000], "hold_at": [None, 5]}
    good = [{"params": {"x": 3.0 + index / 10, "steps": 100, "hold_at": None}} for index in range(5)]
    bad = {"params": {"x": 100.0, "steps": 100_000, "hold_at": 5}, "priority": -1}
    caller = orchestrators.start(
        sweep, sweep=True, program=PROGRAM, space=space, trials=6, chips=3, first=[bad, *good],
        accelerator="cpu", params={"seconds": 0.05},
    )  # fmt: skip
    wait_for(lambda: sweep.held() == {5: 1}, "the end of all others, with which it is compared")
    sweep.let_go_on()
    found = caller.result()
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 5 + ["pruned"]
    assert found["best"] == 0
    assert sweep.steps_of(5) < 2_000, "it would have gone on for an hour"
    ended = json.loads((sweep.trial(5) / layout.RESULT).read_text())
    assert ended["state"] == "stopped"
    assert "the sweep has given this trial up" in (sweep.trial(5) / layout.STOP).read_text()
    assert sweep.held() == {} and not sweep.lives_here()
    run = server.wait_for_run(layout.trial_job(sweep.name, 5))
    assert (run["state"]["type"], run["state"]["name"]) == ("COMPLETED", "GivenUp")
    assert "the sweep has given this trial up" in run["state"]["message"]
    assert "go on" not in " ".join(server.log_lines(run)), "nobody is to go on with it"


def test_a_sweep_that_is_cancelled_stops_its_trials_and_goes_on_when_it_is_run_again(
    server: Server, orchestrators: Orchestrators, new_sweep: Callable[..., Sweep]
) -> None:
    sweep = new_sweep("cancelled-s")
    asked = {"program": PROGRAM, "space": SPACE, "trials": 3, "chips": 2, "params": {"hold_at": 5}, **CHIP}
    caller = orchestrators.start(sweep, sweep=True, **asked)
    wait_for(lambda: all((sweep.trial(number) / "next").exists() for number in range(2)), "two trials")
    run = sweep_run(server, sweep)
    server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    assert "run it again by that name to go on" in caller.result()["message"]
    assert server.wait_for_end(run)["type"] == "CANCELLED"
    assert not sweep.lives_here() and sweep.held() == {}
    sweep.let_go_on()
    found = orchestrators.start(sweep, sweep=True, **asked).result()
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 3
    assert sweep.lives_of(0) == ["began", "began", "left"] and sweep.lives_of(2) == ["began", "left"]
    assert sweep.most_held() == 2 and sweep.held() == {}


@pytest.mark.long
def test_two_processes_of_one_sweep_try_each_trial_once(
    orchestrators: Orchestrators, new_sweep: Callable[..., Sweep]
) -> None:
    sweep = new_sweep("twice")
    asked = {"program": PROGRAM, "space": SPACE, "trials": 3, "chips": 2, "params": {"seconds": 0.1}, **CHIP}
    callers = [orchestrators.start(sweep, sweep=True, **asked) for _ in range(2)]
    first, second = [caller.result() for caller in callers]
    assert first == second and [trial["state"] for trial in first["trials"]] == ["complete"] * 3
    assert [sweep.lives_of(number) for number in range(4)] == [["began", "left"]] * 3 + [[]]
    assert sweep.most_held() == 2 and sweep.most_living() <= 2 and sweep.held() == {}


@pytest.mark.long
def test_chips_of_a_limit_are_free_once_a_trial_that_was_given_up_has_stopped(
    server: Server, orchestrators: Orchestrators, new_sweep: Callable[..., Sweep]
) -> None:
    """It was given up by a process that was killed before it asked the trial to stop."""
    sweep = new_sweep("given-up")
    asked = {
        "program": PROGRAM, "space": SPACE, "trials": 2, "chips": 2, "params": {"hold_at": 5}, **CHIP,
        "accelerator": "v6e-1",
    }  # fmt: skip
    with limited(server, "v6e", 2) as limit:
        killed = orchestrators.start(sweep, sweep=True, **asked)
        wait_for(lambda: all((sweep.trial(number) / "next").exists() for number in range(2)), "two trials")
        assert limit.taken == 2
        killed.signal(signal.SIGKILL)
        killed.wait()
        sweep.storage.put(layout.pruned(1), contract.write_json({"reason": "it is worse than others"}))
        again = orchestrators.start(sweep, sweep=True, **asked)
        wait_for((sweep.trial(1) / layout.RESULT).exists, "the end of the trial that was given up")
        wait_for(lambda: limit.taken == 1, "its chips", patience=30)
        sweep.let_go_on()
        assert [trial["state"] for trial in again.result()["trials"]] == ["complete", "pruned"]
        assert limit.taken == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_told_to_end_takes_its_trials_along(
    server: Server, orchestrators: Orchestrators, new_sweep: Callable[..., Sweep], number: signal.Signals
) -> None:
    sweep = new_sweep(f"told-{int(number)}")
    asked = {"program": PROGRAM, "space": SPACE, "trials": 2, "chips": 2, "params": {"hold_at": 5}, **CHIP}
    caller = orchestrators.start(sweep, sweep=True, **asked)
    wait_for(lambda: all((sweep.trial(index) / "next").exists() for index in range(2)), "two trials")
    caller.signal(number)
    caller.wait()
    assert server.wait_for_end(sweep_run(server, sweep))["type"] == "CRASHED"
    assert not sweep.lives_here()
    sweep.let_go_on()
    found = orchestrators.start(sweep, sweep=True, **asked).result()
    assert [trial["state"] for trial in found["trials"]] == ["complete"] * 2
    assert sweep.lives_of(0) == ["began", "began", "left"] and sweep.most_held() == 2 and sweep.held() == {}


def test_a_trial_that_fails_or_is_stopped_is_one_of_the_trials(
    server: Server, orchestrators: Orchestrators, new_sweep: Callable[..., Sweep]
) -> None:
    sweep = new_sweep("mixed")
    space = {"x": [1.0, 2.0], "fail": [True, False], "hold_at": [None, 3]}
    first = [
        {"params": {"x": 1.0, "fail": True, "hold_at": None}},
        {"params": {"x": 1.0, "fail": False, "hold_at": 3}},
        {"params": {"x": 2.0, "fail": False, "hold_at": None}},
    ]
    caller = orchestrators.start(
        sweep, sweep=True, program=PROGRAM, space=space, trials=3, first=first, chips=2, **CHIP
    )
    wait_for(lambda: (sweep.trial(1) / "next").exists(), "the trial that holds")
    run = server.wait_for_run(layout.trial_job(sweep.name, 1))
    server.ask(f"/flow_runs/{run['id']}/set_state", state={"type": "CANCELLING", "name": "Cancelling"})
    found = caller.result()
    assert [trial["state"] for trial in found["trials"]] == ["failed", "pruned", "complete"]
    assert (found["best"], found["value"]) == (2, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("as_function", [False, True])
def test_without_a_value_there_is_no_best(
    orchestrators: Orchestrators, new_sweep: Callable[..., Sweep], as_function: bool
) -> None:
    sweep = new_sweep(f"none-{int(as_function)}")
    program = {} if as_function else {"program": PROGRAM}  # of the orchestrator's own script
    space = {"width": [1, 2]} if as_function else SPACE
    found = orchestrators.start(sweep, sweep=True, space=space, trials=2, metric="accuracy", **program, **CHIP).result()
    assert found["error"] == "SweepFailed"
    assert "No trial of sweep" in found["message"] and "'accuracy': 2 failed" in found["message"]
