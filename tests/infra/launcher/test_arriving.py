"""A plain loop reads an asynchronous stream: every item once, its turn while nothing comes, an end when it leaves."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio
import pytest

from prefect_tpu.infra.launcher.arriving import MOST_AHEAD, arriving


async def counted(until: int, ended: list[str]) -> AsyncGenerator[int, None]:
    try:
        for number in range(until):
            yield number
    finally:
        ended.append("ended")


def test_every_item_comes_once_and_in_order() -> None:
    ended: list[str] = []
    many = 3 * MOST_AHEAD
    assert [item for item in arriving(counted(many, ended), 5.0) if item is not None] == list(range(many))
    assert ended == ["ended"]


def test_a_loop_gets_its_turn_while_nothing_comes() -> None:
    async def silent() -> AsyncGenerator[int, None]:
        yield 1
        await anyio.sleep_forever()

    stream = arriving(silent(), 0.01)
    assert next(item for item in stream if item is not None) == 1
    assert next(stream) is None
    stream.close()  # type: ignore[attr-defined]


def test_whoever_leaves_the_loop_ends_the_stream() -> None:
    ended: list[str] = []
    for item in arriving(counted(10 * MOST_AHEAD, ended), 5.0):
        if item == 3:
            break
    assert ended == ["ended"]


def test_what_the_stream_raises_is_raised_after_what_came_before() -> None:
    async def failing() -> AsyncGenerator[int, None]:
        yield 1
        raise ValueError("no more")

    came: list[int | None] = []
    with pytest.raises(ValueError, match="no more"):
        came.extend(arriving(failing(), 5.0))
    assert 1 in came
