"""A process that drives many jobs writes one object per output, and nothing of it stays when it has gone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher.heartbeat import LATE_SECONDS, STALE_SECONDS, Heartbeat, Heartbeats, Others
from prefect_tpu.infra.launcher.lease import LAPSED_SECONDS, RENEW_SECONDS
from prefect_tpu.infra.storage import LocalStorage

RUNS_LATE = pytest.mark.slices  # it waits for real time to pass


@pytest.fixture
def output(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def beats(output: LocalStorage) -> list[str]:
    return output.children(layout.HEARTBEATS)


def within(deed: Callable[[Heartbeats], object], clock: Callable[[], float] = time.monotonic) -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(60):
                await deed(Heartbeats(tasks, clock))  # type: ignore[misc]

    anyio.run(run)


def test_all_jobs_of_an_output_live_by_one_and_the_last_takes_it_along(output: LocalStorage) -> None:
    async def deed(heartbeats: Heartbeats) -> None:
        async with heartbeats.of(output) as first:
            async with heartbeats.of(LocalStorage(output.root)) as second:
                assert first is second and beats(output) == [first.name]
            assert beats(output) == [first.name]
        assert beats(output) == []
        async with heartbeats.of(output) as third:
            assert third is not first and beats(output) == [third.name]

    within(deed)


def test_what_killed_processes_left_is_cleared_away_once_it_is_old(output: LocalStorage) -> None:
    for name, age in (("old", STALE_SECONDS + 60.0), ("young", STALE_SECONDS - 60.0)):
        output.put(layout.heartbeat(name), b"1")
        os.utime(output.path(layout.heartbeat(name)), (time.time() - age, time.time() - age))

    async def deed(heartbeats: Heartbeats) -> None:
        async with heartbeats.of(output) as mine:
            assert beats(output) == sorted([mine.name, "young"])

    within(deed)


def test_where_it_cannot_be_written_nothing_is_driven(output: LocalStorage) -> None:
    output.put(layout.HEARTBEATS, b"a file in its place")

    async def deed(heartbeats: Heartbeats) -> None:
        with pytest.raises(PlatformError):
            async with heartbeats.of(output):
                raise AssertionError("it has none")

    within(deed)


@RUNS_LATE
def test_it_goes_on_and_says_when_it_came_late(output: LocalStorage) -> None:
    now = 0.0

    async def deed(heartbeats: Heartbeats) -> None:
        nonlocal now
        async with heartbeats.of(output) as mine:
            before = output.get(layout.heartbeat(mine.name))
            now += LATE_SECONDS + 1.0
            assert await mine.wait_until_late(0, at_most=60.0) == 1
            assert mine.missed == 1 and output.get(layout.heartbeat(mine.name)) != before

    within(deed, lambda: now)


def test_nobody_is_taken_for_dead_before_it_knows_that_it_was_late() -> None:
    assert LATE_SECONDS > RENEW_SECONDS
    assert LATE_SECONDS + RENEW_SECONDS <= LAPSED_SECONDS
    assert Heartbeat(LocalStorage("/nowhere"), time.monotonic).missed == 0


@RUNS_LATE
def test_of_others_each_is_looked_at_once_and_all_who_wait_hear_that_it_is_gone(output: LocalStorage) -> None:
    output.put(layout.heartbeat("theirs"), b"1")
    looks: list[float] = []

    def clock() -> float:
        looks.append(0.0)
        return 0.0

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            others = Others(tasks, clock)
            gone: list[bool] = []

            async def wait(at_most: float) -> None:
                gone.append(await others.wait_until_silent(output, "theirs", at_most))

            with anyio.fail_after(60):
                async with anyio.create_task_group() as waiting:
                    for _ in range(10):
                        waiting.start_soon(wait, 0.5)
                assert gone == [False] * 10 and len(looks) <= 2, "one look for all of them"
                async with anyio.create_task_group() as waiting:
                    for _ in range(10):
                        waiting.start_soon(wait, 50.0)
                    output.delete(layout.heartbeat("theirs"))
                assert gone[10:] == [True] * 10

    anyio.run(run)


@RUNS_LATE
def test_one_that_stands_still_is_gone_too(output: LocalStorage) -> None:
    output.put(layout.heartbeat("theirs"), b"1")
    now = iter(range(0, 1000, int(LAPSED_SECONDS)))

    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(60):
                assert await Others(tasks, lambda: next(now)).wait_until_silent(output, "theirs", 50.0)

    anyio.run(run)
