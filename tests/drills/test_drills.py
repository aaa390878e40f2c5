"""The three drills on real JAX processes: right state, cause, host and attempts, and the same model, bit for bit.

All jobs are started at once, each on a slice of its own of one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slices, pytest.mark.drills, pytest.mark.timeout(240)]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
STEPS = 30
DRILLS = {
    "undisturbed": [],
    "preempt": ["--drill", "preempt@step=12,host=1"],
    "kill": ["--drill", "kill@step=20,host=1"],
    "fail": ["--drill", "fail@step=3,host=1"],
}


@pytest.fixture(scope="session")
def results(new_machine: Callable[[], Any]) -> Iterator[dict[str, dict[str, Any]]]:
    """How each job ended: (its exit code is checked where its end is looked at)"""
    with new_machine() as machine:
        started = {name: _start(machine, name, drill) for name, drill in DRILLS.items()}
        ended = {name: {"code": process.wait(180), **process.result()} for name, process in started.items()}
        assert machine.left() == []
        yield ended


def _start(machine: Any, name: str, drill: list[str]) -> Any:
    params = ["-p", f"steps={STEPS}", "-p", "step_seconds=0.05", "-p", "seed=3"]
    data = ["--data", f"digits={EXAMPLES / 'data' / 'digits.csv.gz'}"]
    options = ["--name", name, "-a", "cpu-2x1", "--checkpoint-every", "0.2", "--json"]
    call = ["run", f"{EXAMPLES / 'digits.py'}:main", *options, *params, *data, *drill]
    return machine.prefect_tpu(*call, PREFECT_TPU_LOCAL_SLICES=str(len(DRILLS)))


def outcomes(result: dict[str, Any]) -> list[str]:
    return [attempt["outcome"] for attempt in result["attempts"]]


def test_an_undisturbed_run_takes_one_attempt(results: dict[str, dict[str, Any]]) -> None:
    result = results["undisturbed"]
    assert (result["code"], result["state"], len(result["attempts"])) == (0, "succeeded", 1)
    assert result["value"]["accuracy"] > 0.9 and result["value"]["steps"] == STEPS


def test_a_preemption_is_saved_and_loses_no_step(results: dict[str, dict[str, Any]]) -> None:
    result = results["preempt"]
    assert (result["code"], result["state"]) == (0, "succeeded"), result["failure"]
    assert outcomes(result) == ["preempted", "succeeded"], result
    first, second = result["attempts"]
    assert (first["failure"]["host"], first["failure"]["retryable"]) == (1, True)
    assert first["last_step"] == first["saved_step"] >= 12
    assert (second["first_step"], second["last_step"]) == (first["saved_step"] + 1, STEPS - 1)
    assert result["value"] == results["undisturbed"]["value"]


def test_a_killed_host_is_lost_though_its_peer_raised(results: dict[str, dict[str, Any]]) -> None:
    result = results["kill"]
    assert (result["code"], result["state"]) == (0, "succeeded"), result["failure"]
    assert outcomes(result) == ["host_lost", "succeeded"], result
    first, second = result["attempts"]
    assert (first["failure"]["host"], first["failure"]["retryable"]) == (1, True)
    saved = -1 if first["saved_step"] is None else first["saved_step"]
    assert (second["first_step"], second["last_step"]) == (saved + 1, STEPS - 1)
    assert result["value"] == results["undisturbed"]["value"]


def test_an_error_of_the_program_fails_the_job_at_once_and_names_its_host(results: dict[str, dict[str, Any]]) -> None:
    result = results["fail"]
    assert (result["code"], result["state"], result["value"]) == (1, "failed", None)
    (attempt,) = result["attempts"]
    assert (attempt["outcome"], attempt["failure"]["host"]) == ("program_error", 1)
    assert "DrillFailure" in result["failure"]["message"] and not result["failure"]["retryable"]
