"""Whoever dies, nothing is leaked and nothing runs twice: drivers, runners, and two drivers at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import psutil
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Held
from prefect_tpu.infra.backends.local import LocalBackend
from prefect_tpu.infra.errors import Conflict
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.state import Offer

pytestmark = [pytest.mark.slices, pytest.mark.timeout(90)]

FOREVER = {"steps": 10, "hold_at": 3}
OFFER = Offer(accelerator="cpu-2x1")
TOTAL = sum(range(10))


def outcomes(result: dict[str, Any]) -> list[str]:
    return [attempt["outcome"] for attempt in result["attempts"]]


# -- a driver is killed ----------------------------------------------------------------------------


def test_hosts_that_nobody_drives_save_and_leave_and_the_job_goes_on_from_there(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    job = make_job("keeper.py:main", {"steps": 10, "hold_at": 7}, orphan_after=1.5)
    driver = job.drive()
    wait_until(lambda: job.storage.get(layout.checkpoint_seal(1, 6)), "the checkpoint of step 6")
    wait_until(lambda: len(job.machine.left()) == 4, "a runner and its program on each host")
    driver.kill()
    wait_until(lambda: job.machine.left() == [], "the hosts' leaving by themselves", seconds=15)
    records = [json.loads(job.storage.get(layout.record(1, host)) or b"") for host in (0, 1)]
    assert {record["stop_reason"] for record in records} == {"orphaned"}

    job.go_on()
    result = job.drive().result()
    assert outcomes(result) == ["preempted", "succeeded"]
    assert result["attempts"][0]["saved_step"] == 6
    assert result["value"] == {"total": TOTAL, "began_at": 7, "attempt": 2}


def test_running_again_before_that_adopts_the_attempt(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    job = make_job("counter.py:main", FOREVER)
    driver = job.drive()
    wait_until(lambda: job.is_counting, "the first steps")
    driver.kill()
    again = job.drive()
    wait_until(lambda: "found running; following it" in again.err, "the adoption")
    job.go_on()
    assert outcomes(again.result()) == ["succeeded"]
    assert again.result()["value"] == {"total": TOTAL, "attempt": 1, "began_at": 0}
    assert job.machine.left() == []


def test_an_attempt_whose_hosts_were_never_started_is_carried_out_as_it_was_planned(
    make_job: Callable[..., Any],
) -> None:
    """Its driver was killed between the plan and the first host."""
    job = make_job("counter.py:main", {"steps": 3})
    plan = plan_of(job)
    result = job.drive().result()
    assert outcomes(result) == ["succeeded"] and result["value"]["attempt"] == 1
    assert job.storage.get(layout.plan(1)) == plan


def plan_of(job: Any) -> bytes:
    """The first attempt's plan, laid down by a driver that did no more."""

    async def lay_down() -> bytes:
        backend = LocalBackend(job.machine.environment)
        attempt = Attempt(job=job.job, number=1, output=job.storage.url)
        held = await backend.provision(attempt, OFFER)
        assert isinstance(held, Held)
        plan = backend.plan(attempt, held).hosts.to_json()
        await backend.release(held)
        return plan

    plan = anyio.run(lay_down)
    assert job.storage.put_if_absent(layout.plan(1), plan)
    return plan


# -- the job's folder is deleted -------------------------------------------------------------------


def test_a_job_that_was_deleted_while_it_ran_ends_and_does_not_come_back(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    job = make_job("counter.py:main", FOREVER)
    driver = job.drive()
    wait_until(lambda: job.is_counting, "the first steps")
    folder = job.storage.root.rename(job.storage.root.with_name("elsewhere"))  # in one moment, unlike a deletion
    assert driver.wait() != 0
    assert "was deleted or moved away while it ran, so its hosts were ended" in driver.err
    assert not job.storage.root.exists() and job.machine.left() == []
    folder.rename(job.storage.root)
    job.go_on()
    assert outcomes(job.drive().result()) == ["host_lost", "succeeded"], "it was put back, and goes on"


# -- a runner is killed ----------------------------------------------------------------------------


def test_a_killed_runner_takes_its_program_along_and_counts_as_a_lost_host(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    job = make_job("counter.py:main", FOREVER, max_preemptions=0)
    driver = job.drive()
    wait_until(lambda: job.is_counting, "the first steps")
    (program,) = job.runner(1).children()
    driver.kill()  # so that nobody else ends the program
    job.runner(1).kill()
    wait_until(lambda: not is_running(program), "the end of the program whose runner was killed", seconds=5)
    result = job.drive().result()
    assert (result["state"], outcomes(result)) == ("failed", ["host_lost"])
    assert (result["failure"]["host"], result["failure"]["retryable"]) == (1, True)
    assert job.machine.left() == []


def is_running(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# -- two drivers, other wishes, an end that is there -----------------------------------------------


def test_of_two_drivers_one_waits_and_both_have_the_same_result(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    job = make_job("counter.py:main", FOREVER)
    drivers = [job.drive(), job.drive()]
    wait_until(lambda: any("waiting for it" in driver.err for driver in drivers), "one driver's patience")
    wait_until(lambda: job.is_counting, "the first steps")
    job.go_on()
    results = [driver.result() for driver in drivers]
    assert results[0] == results[1] and outcomes(results[0]) == ["succeeded"]
    assert sum("from the beginning" in driver.err for driver in drivers) == 1
    assert job.machine.left() == []


def test_the_same_name_with_another_wish_is_refused_and_the_fields_are_named(make_job: Callable[..., Any]) -> None:
    job = make_job("counter.py:main", {"steps": 1})
    assert job.drive().result()["state"] == "succeeded"
    other = replace(job.job, program=replace(job.job.program, params={"steps": 2}), grace=7.0)
    with (
        pytest.raises(Conflict, match=r"asked for differently: params 'steps' was 1 and is 2\."),
        driving(other, job.storage.url),
    ):
        pytest.fail("a job that was asked for differently was driven")


def test_a_job_that_has_succeeded_has_its_result_at_once(make_job: Callable[..., Any]) -> None:
    job = make_job("counter.py:main", {"steps": 1})
    first = job.drive().result()
    with driving(job.job, job.storage.url) as driven:
        assert driven.next_attempt() is None
        assert drive_to_end(driven).to_json() == first
    assert [path.name for path in job.storage.path("attempts").iterdir()] == ["1"]


# -- a stop, whenever it comes ---------------------------------------------------------------------


def test_a_stop_while_the_hosts_start_ends_at_once(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    job = make_job("counter.py:main", FOREVER)
    driver = job.drive()
    wait_until(lambda: "from the beginning" in driver.err, "the start")
    job.storage.put(layout.STOP, b"{}")
    assert driver.wait(20) == 0, driver.err  # the grace is longer
    assert (driver.result()["state"], outcomes(driver.result())) == ("stopped", ["stopped"])
    assert job.machine.left() == []


def test_a_stop_while_an_attempt_that_never_began_waits_for_its_slice(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    job = make_job("counter.py:main", FOREVER)
    plan_of(job)
    other = make_job("counter.py:main", FOREVER, name="other")
    other.drive()
    wait_until(lambda: other.is_counting, "the other job's steps")
    driver = job.drive()
    wait_until(lambda: "waiting: the slice of this machine is taken by job 'other'" in driver.err, "a wait")
    job.storage.put(layout.STOP, b"{}")
    assert driver.wait(20) == 0, driver.err
    assert (driver.result()["state"], outcomes(driver.result())) == ("stopped", ["stopped"])
    assert len(job.machine.left()) == 4, "the other job runs on"


def test_a_program_that_ignores_its_notice_and_its_children_are_ended(
    make_job: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    """It also hides a process in a session of its own."""
    job = make_job("stubborn.py:main", {}, grace=0.5)
    driver = job.drive()
    wait_until(lambda: len(job.machine.left()) == 6, "every process")
    job.storage.put(layout.STOP, b"{}")
    result = driver.result()
    assert (result["state"], outcomes(result)) == ("stopped", ["stopped"])
    assert job.machine.left() == []
