"""A sweep that is killed at any moment and run again redoes nothing, keeps its budget and finds the same."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prefect_jobs import Orchestrators
from prefect_server import wait_for
from sweep_runs import PROGRAM, SPACE, Sweep

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("SWEEP_KILLS", "6"))  # in all sweeps together
A_SWEEP = 4  # of them
SEED = 24
LONGEST_SECONDS = 5.0  # from a call to its kill: some come before its first trial, others between two
TRIALS, BUDGET = 6, 2
ASKED = {
    "program": PROGRAM,
    "space": SPACE,
    "trials": TRIALS,
    "chips": BUDGET,
    "accelerator": "cpu",
    "sampler": "random",
    "pruner": "none",
    "seed": 5,
    "params": {"steps": 20, "seconds": 0.05},
}


def test_killed_at_many_moments_and_run_again(orchestrators: Orchestrators, new_sweep: Callable[..., Sweep]) -> None:
    chance = random.Random(SEED)
    moments = [chance.uniform(0, LONGEST_SECONDS) for _ in range(KILLS)]
    parts = [moments[begin : begin + A_SWEEP] for begin in range(0, KILLS, A_SWEEP)]
    sweeps = [new_sweep(f"k{index}") for index in range(len(parts) + 1)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda sweep, part: run(orchestrators, sweep, part), sweeps, [*parts, []]))
    struck = sum(count for _, count in found)
    assert struck >= KILLS // 6, f"only {struck} of {KILLS} kills met trials that were under way"
    whole = found[-1][0]  # that nobody killed
    for result, _ in found:
        assert result == whole


def run(orchestrators: Orchestrators, sweep: Sweep, moments: list[float]) -> tuple[list[Any], int]:
    """(what came out, how many kills met trials under way); asserts that nothing was redone or held too much."""
    struck = 0
    for index, moment in enumerate(moments):
        killed = orchestrators.start(sweep, sweep=True, **ASKED)
        if index % 2:  # one that meets trials, however long this machine takes to begin them
            wait_for(lambda killed=killed: _is_under_way(sweep) or not killed.is_alive, f"a trial of {sweep.name}")
        else:
            time.sleep(moment)  # what is tried is this very moment
        if killed.is_alive:
            killed.signal(signal.SIGKILL)
        killed.wait()
        struck += _is_under_way(sweep)
    found = orchestrators.start(sweep, sweep=True, **ASKED).result()
    assert "best" in found, (sweep.name, moments, found)
    for number in range(TRIALS):
        assert sweep.lives_of(number) == ["began", "left"], (sweep.name, number, moments)
    assert not sweep.trial(TRIALS).exists()
    assert sweep.most_held() <= BUDGET and sweep.most_living() <= BUDGET
    assert sweep.held() == {} and not sweep.lives_here()
    trials = [(trial["number"], trial["state"], trial["params"], trial["value"]) for trial in found["trials"]]
    return [found["best"], found["value"], found["params"], trials], struck


def _is_under_way(sweep: Sweep) -> bool:
    lives = [sweep.lives_of(number) for number in range(TRIALS)]
    return any(life and "left" not in life for life in lives)
