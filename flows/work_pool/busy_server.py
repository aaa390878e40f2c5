"""What if a Prefect server is away, or has too many requests? It is asked again, for a bounded time.

Prefect's workers outlast a server that is away or broken, and end with the first 429 that outlives their client's own
tries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_delay, wait_random_exponential

BUSY = 429
SERVER_SECONDS = 60.0  # for one question, beside what Prefect's client tries itself
T = TypeVar("T")


async def asked(
    question: Callable[[], Awaitable[T]],
    seconds: float = SERVER_SECONDS,
    tell: Callable[[BaseException], None] = lambda why: None,
) -> T:
    """The Prefect server's answer; asked again, for so many seconds, while it cannot answer.

    tell: hears each time why.
    """
    async for attempt in AsyncRetrying(
        stop=stop_after_delay(seconds),
        wait=wait_random_exponential(multiplier=0.5, max=10),
        retry=retry_if_exception(is_away),
        before_sleep=lambda state: _tell(state, tell),
        reraise=True,
    ):
        with attempt:
            return await question()
    raise AssertionError("tenacity ends by an answer or an error")


def _tell(state: RetryCallState, tell: Callable[[BaseException], None]) -> None:
    if state.outcome is not None and (why := state.outcome.exception()) is not None:
        tell(why)


def is_away(exc: BaseException) -> bool:
    """Whether this is no answer to what was asked, so that it is asked again."""
    if isinstance(exc, httpx.HTTPStatusError):
        return exc.response.status_code >= 500 or exc.response.status_code in (408, BUSY)
    return isinstance(exc, httpx.TransportError)


@contextmanager
def busy_is_away() -> Iterator[None]:
    """Within, a server that is too busy is told as one that does not answer; other refusals are told as they are."""
    try:
        yield
    except httpx.HTTPStatusError as exc:
        if exc.response.status_code != BUSY:
            raise
        raise httpx.TransportError(f"The Prefect server has too many requests: {exc}", request=exc.request) from exc
