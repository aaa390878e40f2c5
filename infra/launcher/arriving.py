"""How does a plain loop read an asynchronous stream and still get its turn while nothing comes?"""

from __future__ import annotations

import queue
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TypeVar

import anyio
from anyio.from_thread import start_blocking_portal

T = TypeVar("T")
MOST_AHEAD = 1000  # read and not yet taken: a slow reader holds up the stream instead of filling the memory
PAUSE_SECONDS = 0.05


def arriving(stream: AsyncGenerator[T, None], seconds: float) -> Iterator[T | None]:
    """The items of the stream as they come; None each time that none has come for `seconds`.

    What the stream raises is raised here. Leaving the loop ends the stream.
    """
    heard: queue.Queue[tuple[T] | None] = queue.Queue()
    with start_blocking_portal() as portal:
        future = portal.start_task_soon(_read, stream, heard)
        future.add_done_callback(lambda _: heard.put(None))  # the stream's end, behind its last item
        try:
            while (item := _next(heard, seconds)) is not None:
                yield item[0]
        finally:
            future.cancel()
        future.result()


def _next(heard: queue.Queue[tuple[T] | None], seconds: float) -> tuple[T | None] | None:
    try:
        return heard.get(timeout=seconds)
    except queue.Empty:
        return (None,)


async def _read(stream: AsyncGenerator[T, None], heard: queue.Queue[tuple[T] | None]) -> None:
    async with aclosing(stream):
        async for item in stream:
            heard.put((item,))
            while heard.qsize() >= MOST_AHEAD:
                await anyio.sleep(PAUSE_SECONDS)
