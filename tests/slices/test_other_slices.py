"""Several accelerators: a slice that cannot be had costs the job nothing but itself, also after a driver was killed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Attempt, Held
from prefect_tpu.infra.backends.local import LocalBackend
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.state import Offer
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(120)]

PROGRAMS = Path(__file__).parents[1] / "programs"
TOO_MANY = "hosts on one machine (PREFECT_TPU_LOCAL_MAX_HOSTS): 2 hosts needed, 1 hosts available"


@pytest.fixture
def job(machine: Any) -> SliceJob:
    """Two hosts or one; nothing that goes wrong is forgiven."""
    return prepare(
        Request(
            name="job",
            program=f"{PROGRAMS / 'plain.py'}:describe",
            accelerators=("cpu-2x1", "cpu"),
            output=str(machine.output),
            params={"name": "x"},
            settings={"max_preemptions": 0},
        )
    )


def drive(machine: Any, job: SliceJob, **environment: str) -> Any:
    path = machine.folder / "job.json"
    path.write_bytes(job.to_json())
    return machine.start(sys.executable, "-P", PROGRAMS / "drive.py", path, machine.output / "job", **environment)


def plan_for_the_first(machine: Any, job: SliceJob) -> None:
    """What a driver leaves that is killed between the plan and the first host."""
    storage, backend = LocalStorage(machine.output / "job"), LocalBackend(machine.environment)
    attempt = Attempt(job=job, number=1, output=storage.url)

    async def plan() -> bytes:
        held = await backend.provision(attempt, Offer(accelerator="cpu-2x1"))
        assert isinstance(held, Held)
        raw = backend.plan(attempt, held).hosts.to_json()
        await backend.release(held)
        return raw

    assert storage.put_if_absent(layout.JOB, job.to_json())
    assert storage.put_if_absent(layout.plan(1), anyio.run(plan))


def test_the_first_slice_that_fits_is_used_and_the_news_say_why(machine: Any, job: SliceJob) -> None:
    driver = drive(machine, job, PREFECT_TPU_LOCAL_MAX_HOSTS="1")
    result = driver.result()
    (attempt,) = result["attempts"]
    assert (result["state"], attempt["accelerator"]) == ("succeeded", "cpu"), driver.err
    assert attempt["instead_of"] == f"cpu-2x1 cannot be had: {TOO_MANY}"
    assert f"cpu-2x1 cannot be had: {TOO_MANY}" in driver.err
    assert "cpu-2x1 cannot be had; beginning on cpu: 1 host of 1 device" in driver.err


def test_an_attempt_whose_slice_is_gone_since_its_driver_was_killed_goes_on_on_the_next_one(
    machine: Any, job: SliceJob
) -> None:
    plan_for_the_first(machine, job)
    driver = drive(machine, job, PREFECT_TPU_LOCAL_MAX_HOSTS="1")
    result = driver.result()
    ran = [(attempt["outcome"], attempt["accelerator"]) for attempt in result["attempts"]]
    assert ran == [("no_capacity", "cpu-2x1"), ("succeeded", "cpu")], driver.err
    assert "next attempt in" not in driver.err, "there is nothing to wait for"


def test_a_job_that_no_slice_is_had_for_names_all(machine: Any, make_job: Callable[..., Any]) -> None:
    job = make_job("plain.py:describe", {"name": "x"}, drills=("stockout@start",))
    driver = job.drive()
    result = driver.result()
    assert (result["state"], result["attempts"]) == ("failed", []), driver.err
    assert result["failure"]["kind"] == "no_capacity"
    assert "cpu-2x1: drill stockout@start,host=0: no capacity." in result["failure"]["message"]
    again = job.drive().result()
    assert again["state"] == "succeeded", "a stockout lasts until its round ends"
