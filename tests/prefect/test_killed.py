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

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(180)]

STEPS, SECONDS = 40, 0.03
MOMENTS, SEED = 10, 20
LATEST = 3.5  # seconds after the call; a run takes about this long


def moments() -> list[float]:
    """One in each tenth of a run, so that every phase is hit."""
    chance = random.Random(SEED)
    return [LATEST * (index + chance.random()) / MOMENTS for index in range(MOMENTS)]


def test_killed_at_ten_moments_and_run_again(orchestrators: Orchestrators, new_job: Callable[[str], Job]) -> None:
    jobs = [new_job(f"killed-{index}") for index in range(MOMENTS)]
    with ThreadPoolExecutor(MOMENTS) as pool:
        found = list(pool.map(lambda job, moment: kill_and_run_again(orchestrators, job, moment), jobs, moments()))
    assert found == [sum(range(STEPS))] * MOMENTS


def kill_and_run_again(orchestrators: Orchestrators, job: Job, moment: float) -> int:
    """The job's total after both runs; asserts that attempts never overlapped and nothing is left."""
    arguments = {"program": PROGRAM, "params": {"steps": STEPS, "seconds": SECONDS}}
    killed = orchestrators.start(job, **arguments)
    time.sleep(moment)  # the moment is what is tried
    if killed.is_alive:
        killed.signal(signal.SIGKILL)
    killed.wait()
    found = orchestrators.start(job, **arguments).result()
    assert job.overlaps() == "", moment
    assert set(Counter(job.lives()).values()) == {1}, "a program was started twice"
    assert not job.processes() and job.is_slice_free()
    total: int = found["value"]["total"]
    return total
