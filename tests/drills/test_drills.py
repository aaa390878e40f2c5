"""Each drill alone, and a few together, on real JAX processes: right state, cause, host and attempts, the same model.

The same model is the same in every bit, except after a move to a slice of another shape. All jobs of this file share
one machine, some at a time, each on a slice of its own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.drills, pytest.mark.timeout(400)]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
STEPS = 30
AT_ONCE = 3
SLICES = 8
CHAIN = ("cpu-2x4", "cpu-2x1", "cpu")
PARAMS: dict[str, float] = {"steps": STEPS, "step_seconds": 0.05, "seed": 3}
SETTINGS = {"checkpoint_every": 0.2, "stall_timeout": 20.0}  # of a step: on a busy machine the first takes 10 s
DRILLS: dict[str, tuple[str, ...]] = {
    "undisturbed": (),
    "preempt": ("preempt@step=12,host=1",),
    "kill": ("kill@step=20,host=1",),
    "fail": ("fail@step=3,host=1",),
    "hang": ("hang@step=9,host=1",),
    "oom": ("oom@save=1,host=1",),
    "slow": ("slow@step=20,host=1",),
    "stockout": ("stockout@step=8,host=1", "stockout@attempt=3", "preempt@step=16,attempt=2"),
    "together": ("preempt@save=1,host=1", "kill@step=16,attempt=2", "hang@step=24,attempt=3"),
}


@pytest.fixture(scope="module")
def machine(new_machine: Callable[[], Any]) -> Iterator[Any]:
    with new_machine() as machine:
        yield machine


@pytest.fixture(scope="module")
def ends(machine: Any, play_on: Callable[..., Any], left_on: Callable[..., Any]) -> dict[str, Any]:
    """How each job ended."""

    def play(name: str) -> Any:
        request = {
            "name": name,
            "program": f"{EXAMPLES / 'digits.py'}:main",
            "accelerators": CHAIN if name == "stockout" else ("cpu-2x1",),
            "params": PARAMS,
            "data": {"digits": str(EXAMPLES / "data" / "digits.csv.gz")},
            "settings": {**SETTINGS, "drills": DRILLS[name]},
        }
        return play_on(machine, request, slices=SLICES)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(DRILLS, pool.map(play, DRILLS), strict=True))


def causes(end: Any) -> list[tuple[str, int | None]]:
    return [(outcome, host) for outcome, host, _ in end.attempts]


def test_an_undisturbed_run_takes_one_attempt(ends: dict[str, Any]) -> None:
    end = ends["undisturbed"]
    assert (end.result["state"], causes(end)) == ("succeeded", [("succeeded", None)]), str(end)
    assert end.result["value"]["accuracy"] > 0.9 and end.result["value"]["steps"] == STEPS


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("preempt", [("preempted", 1)]),
        ("kill", [("host_lost", 1)]),
        ("hang", [("stalled", 1)]),
        ("slow", []),
        ("together", [("preempted", 1), ("host_lost", 0), ("stalled", 0)]),
    ],
)
def test_a_rehearsed_failure_costs_an_attempt_and_changes_no_bit(
    ends: dict[str, Any], name: str, before: list[tuple[str, int]]
) -> None:
    end = ends[name]
    assert causes(end) == [*before, ("succeeded", None)], str(end)
    assert end.result["value"] == ends["undisturbed"].result["value"], str(end)
    assert end.without_effect == () and end.traces == (), str(end)


@pytest.mark.parametrize(
    ("name", "kind", "word"), [("fail", "program_error", "DrillFailure"), ("oom", "out_of_memory", "MemoryError")]
)
def test_a_rehearsed_error_fails_the_job_at_once_and_names_its_host(
    ends: dict[str, Any], name: str, kind: str, word: str
) -> None:
    end = ends[name]
    assert (end.result["state"], end.result["value"]) == ("failed", None), str(end)
    assert causes(end) == [(kind, 1)] and end.failure == (kind, 1), str(end)
    assert word in end.result["failure"]["message"] and not end.result["failure"]["retryable"], str(end)


def test_a_preemption_is_saved_and_loses_no_step(ends: dict[str, Any]) -> None:
    first, second = ends["preempt"].result["attempts"]
    assert first["last_step"] == first["saved_step"] >= 12
    assert (second["first_step"], second["last_step"]) == (first["saved_step"] + 1, STEPS - 1)


def test_after_a_lost_host_the_newest_checkpoint_is_the_beginning(ends: dict[str, Any]) -> None:
    first, second = ends["kill"].result["attempts"]
    saved = -1 if first["saved_step"] is None else first["saved_step"]
    assert (second["first_step"], second["last_step"]) == (saved + 1, STEPS - 1)


def test_each_later_step_of_a_slow_host_takes_four_times_as_long(ends: dict[str, Any]) -> None:
    events = Ledger(LocalStorage(ends["slow"].result["output"])).read(1, "host1")
    done = {event["step"]: event["after"] for event in events if event["event"] == Event.STEP}
    first, last = min(step for step in done if step > 20), max(done)
    ahead = 2  # a report is written once its values are there: the steps may be two further by then
    assert done[last] - done[first] >= (last - first - ahead) * 4 * PARAMS["step_seconds"] > 0, done


def test_a_job_whose_slice_is_gone_goes_on_on_the_next_ones_and_says_so(ends: dict[str, Any]) -> None:
    end, undisturbed = ends["stockout"], ends["undisturbed"].result["value"]
    assert end.attempts == [("preempted", 1, "cpu-2x4"), ("preempted", 0, "cpu-2x1"), ("succeeded", None, "cpu")]
    first, second, third = end.result["attempts"]
    assert second["first_step"] == first["saved_step"] + 1 and third["first_step"] == second["saved_step"] + 1
    assert third["instead_of"] == (
        "cpu-2x4 cannot be had: drill stockout@step=8,host=1: no capacity;"
        " cpu-2x1 cannot be had: drill stockout@start,attempt=3,host=0: no capacity"
    )
    assert f"{second['instead_of']}; going on on cpu-2x1: 2 hosts of 1 device, from step {first['saved_step']}" in (
        end.said
    )
    assert end.result["value"]["loss"] == pytest.approx(undisturbed["loss"], rel=1e-3)
    assert end.result["value"]["accuracy"] == pytest.approx(undisturbed["accuracy"], abs=0.01)


def test_the_command_that_a_drill_kills_is_run_again(machine: Any) -> None:
    program = Path(__file__).parents[1] / "programs" / "lockstep.py"
    drill = "orchestrator-kill@step=2,host=1"
    call = ("run", f"{program}:main", "--name", "again", "-a", "cpu-2x1", "-p", "seconds=0.12", "--drill", drill)
    first = machine.prefect_tpu(*call, "--json", PREFECT_TPU_LOCAL_SLICES=str(SLICES))
    assert first.wait(120) == -signal.SIGKILL
    again = machine.prefect_tpu(*call, "--json", PREFECT_TPU_LOCAL_SLICES=str(SLICES))
    assert again.wait(120) == 0, again.err
    result = again.result()
    assert [attempt["outcome"] for attempt in result["attempts"]] == ["succeeded"], result
    assert "found running" in again.err


def test_nothing_is_left(ends: dict[str, Any], machine: Any, left_on: Callable[..., Any]) -> None:
    assert left_on(machine, SLICES) == {"processes": [], "slices": [], "ports": []}
