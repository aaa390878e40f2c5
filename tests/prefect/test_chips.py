"""A global concurrency limit of chips, on a real server: jobs have no more at once, and give back what they had."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from limited_chips import limited
from prefect_jobs import PROGRAM, Job, Orchestrator, Orchestrators
from prefect_server import Server, wait_for
from slice_worker_pool import SliceWorkerPool, slice_worker_pool

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher.permits import Chips, Permit, read_permit
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.prefect, pytest.mark.long, pytest.mark.timeout(600)]

STEPS, HOLD_AT = 20, 5
PARAMS = {"steps": STEPS, "seconds": 0.02, "hold_at": HOLD_AT}
TOTAL = sum(range(STEPS))


def of_two_chips(orchestrators: Orchestrators, job: Job) -> Orchestrator:
    """Two slices of a chip each, whose programs wait at a step."""
    return orchestrators.start(job, program=PROGRAM, params=PARAMS, accelerator="v6e-1", slices=2)


def permit_of(job: Job) -> Permit | None:
    return read_permit(LocalStorage(job.output))


def test_jobs_have_no_more_at_once_than_there_are(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job]
) -> None:
    jobs = [new_job(f"chips-{number}") for number in range(3)]
    with limited(server, "v6e", 4) as limit, limit.watched() as seen:
        callers = [of_two_chips(orchestrators, job) for job in jobs]
        last = wait_for(lambda: next((job for job in jobs if (job.output / layout.WAITING).exists()), None), "a wait")
        for job in jobs:
            if job is not last:
                job.wait_for_step(HOLD_AT - 1)
        assert (limit.taken, last.lives()) == (4, [])
        for job in jobs:
            (job.output / "counter").mkdir(exist_ok=True)
            job.let_go_on()
        assert [caller.result()["value"]["total"] for caller in callers] == [TOTAL] * 3
        assert limit.taken == 0
    assert max(seen) == 4
    assert not any(permit_of(job) for job in jobs)
    run = server.wait_for_run(last.name)
    assert server.log(run, "waiting: concurrency limit 'chips-v6e' has 0 of its 4 chips free, and 2 are needed")


def test_a_killed_driver_has_taken_them_once(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job]
) -> None:
    job = new_job("chips-killed")
    with limited(server, "v6e", 4) as limit:
        killed = of_two_chips(orchestrators, job)
        job.wait_for_step(HOLD_AT - 1)
        noted = permit_of(job)
        assert noted is not None and noted.chips == Chips(kind="v6e", count=2) and limit.taken == 2
        first = server.wait_for_run(job.name)
        killed.signal(signal.SIGKILL)
        killed.wait()
        with limit.watched() as seen:
            again = of_two_chips(orchestrators, job)
            second = wait_for(lambda: another_run(server, job, first), "the second run")
            server.log(second, "found running; following it")
            assert (permit_of(job), limit.taken) == (noted, 2)
            job.let_go_on()
            assert again.result()["value"]["total"] == TOTAL
        assert set(seen) <= {2, 0} and limit.taken == 0
    assert permit_of(job) is None and job.overlaps() == ""


def test_more_than_the_limit_is_refused_with_what_to_do(
    server: Server, orchestrators: Orchestrators, new_job: Callable[[str], Job]
) -> None:
    with limited(server, "v4", 2) as limit:
        found = orchestrators.start(new_job("chips-many"), program=PROGRAM, accelerator="v4-8").result()
        assert found["error"] == "JobFailed"
        for words in ("concurrency limit 'chips-v4' is 2 in all", "4 chips", "prefect gcl update chips-v4 --limit 4"):
            assert words in found["message"]
        assert limit.taken == 0


def another_run(server: Server, job: Job, first: dict[str, Any]) -> dict[str, Any] | None:
    run = server.run_of(job.name)
    return run if run is not None and run["id"] != first["id"] else None


@pytest.fixture
def pool(server: Server, tmp_path: Path) -> Iterator[SliceWorkerPool]:
    with slice_worker_pool(server, tmp_path) as pool:
        pool.start_worker()
        yield pool


def test_a_run_of_a_pool_waits_by_name(server: Server, pool: SliceWorkerPool) -> None:
    with limited(server, "v5p", 4) as limit:
        runs = [pool.run(accelerator="v5p-8") for _ in range(2)]

        def waiting() -> dict[str, Any] | None:
            return next((run for run in runs if pool.now(run)["state"]["name"] == "WaitingForQuota"), None)

        last = wait_for(waiting, f"a run that waits: {pool.told()}")
        (first,) = [run for run in runs if run is not last]
        assert "concurrency limit 'chips-v5p' has 0 of its 4 chips free" in pool.now(last)["state"]["message"]
        pool.wait_until_begun(first)
        assert limit.taken == 4
        for run in (first, last):
            pool.let_go_on(run)
            assert server.wait_for_end(run)["type"] == "COMPLETED"
            pool.wait_until_gone(run)
        wait_for(lambda: limit.taken == 0, "the chips of the last run")
