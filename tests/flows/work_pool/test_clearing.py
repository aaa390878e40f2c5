"""What ended jobs left in a pool's output is ended, by one of its workers at a time."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from prefect_tpu.flows.work_pool.clearing import TURN, clear
from prefect_tpu.infra import layout
from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.fleet import Fleet
from prefect_tpu.infra.launcher.reaping import STALE_SECONDS
from prefect_tpu.infra.storage import LocalStorage

PROGRAM = Program(kind="flow", target="prefect", arguments=("flow-run", "execute"))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """With one job, and a write that was cut short long ago."""
    storage = LocalStorage(tmp_path / "jobs" / "digits")
    history.enter(storage, SliceJob(name="digits", program=PROGRAM, accelerators=("cpu",)))
    cut_short(tmp_path / "jobs")
    return tmp_path / "jobs"


def cut_short(output: Path) -> Path:
    half = output / "digits" / f"{layout.TEMPORARY}half"
    half.touch()
    moment = time.time() - 2 * STALE_SECONDS
    os.utime(half, (moment, moment))
    return half


@asynccontextmanager
async def two_fleets() -> AsyncIterator[tuple[Fleet, Fleet]]:
    """As of two workers."""
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            fleets = Fleet(tasks), Fleet(tasks)
            yield fleets
            for fleet in fleets:
                await fleet.leave()
            tasks.cancel_scope.cancel()


def go(deed: Callable[[], Awaitable[None]]) -> None:
    anyio.run(deed)


@pytest.mark.parametrize("ending", ["", "/"], ids=["as it is", "with a slash"])
def test_whoever_does_not_have_the_turn_ends_nothing(output: Path, ending: str) -> None:
    async def story() -> None:
        async with two_fleets() as (one, other):
            async with one.hold(str(output / TURN)) as held:
                assert held is not None
                assert await clear(f"{output}{ending}", other) == 0
                assert half.exists()
            assert await clear(f"{output}{ending}", other) == 1
            assert not half.exists()

    half = cut_short(output)
    go(story)


def test_of_two_at_once_one_ends_it(output: Path) -> None:
    async def story() -> None:
        ended: list[int] = []

        async def clear_up(fleet: Fleet) -> None:
            ended.append(await clear(str(output), fleet))

        async with two_fleets() as fleets:
            async with anyio.create_task_group() as tasks:
                for fleet in fleets:
                    tasks.start_soon(clear_up, fleet)
            assert sorted(ended) == [0, 1]

    go(story)


def test_the_turn_is_given_up_and_is_no_job(output: Path) -> None:
    async def story() -> None:
        async with two_fleets() as (one, _):
            assert await clear(str(output), one) == 1
            assert await clear(str(output), one) == 0

    go(story)
    assert LocalStorage(output / TURN).get(layout.LEASE) is None
    assert layout.JOB_NAME.fullmatch(TURN) is None


def test_what_is_wanted_is_left_alone(output: Path) -> None:
    async def story() -> None:
        half = cut_short(output)
        os.utime(half)  # somebody may be writing it
        async with two_fleets() as (one, _):
            assert await clear(str(output), one) == 0
        assert half.exists() and history.is_there(LocalStorage(output / "digits"))

    go(story)
