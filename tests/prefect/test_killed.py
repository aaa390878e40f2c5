"""An orchestrator that is killed at any moment loses nothing: running the flow again finishes the job."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from prefect_jobs import PROGRAM, Job, Orchestrators

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(400)]

STEPS, SECONDS = 40, 0.03
SEED = 20
PARTS = 5  # of the start, in seconds, and of the program, in steps: a moment in each
START_SECONDS = 1.5  # from the call to the first step
AT_ONCE = 5
Moment = float | int  # seconds after the call, or the step after which to strike


def moments() -> list[Moment]:
    chance = random.Random(SEED)
    seconds = [START_SECONDS * (part + chance.random()) / PARTS for part in range(PARTS)]
    steps = [int(STEPS * (part + chance.random()) / PARTS) for part in range(PARTS)]
    return [*seconds, *steps]


def test_killed_at_ten_moments_and_run_again(orchestrators: Orchestrators, new_job: Callable[[str], Job]) -> None:
    jobs = [new_job(f"killed-{index}") for index in range(2 * PARTS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda job, moment: kill_and_run_again(orchestrators, job, moment), jobs, moments()))
    assert found == [sum(range(STEPS))] * 2 * PARTS


def kill_and_run_again(orchestrators: Orchestrators, job: Job, moment: Moment) -> int:
    """The job's total after both runs; asserts that attempts never overlapped and nothing is left."""
    arguments = {"program": PROGRAM, "params": {"steps": STEPS, "seconds": SECONDS}}
    killed = orchestrators.start(job, **arguments)
    if isinstance(moment, int):
        job.wait_for_step(moment)
    else:
        time.sleep(moment)  # what is tried is this very moment
    if killed.is_alive:
        killed.signal(signal.SIGKILL)
    killed.wait()
    found = orchestrators.start(job, **arguments).result()
    assert "value" in found, (moment, found)
    assert job.overlaps() == "", moment
    assert set(Counter(job.lives()).values()) == {1}, f"killed at {moment}: a program was started twice"
    assert not job.processes() and job.is_slice_free(), moment
    total: int = found["value"]["total"]
    return total
