"""How long is a cluster waited for, and when is a request sent again?"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_before_delay, wait_random_exponential

from prefect_tpu.infra.gcp.errors import Unavailable

logger = logging.getLogger(__name__)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Every bound of a client, in seconds.

    connect: until the API server takes a connection.
    request: until a request is answered.
    retry: for how long one request is tried again.
    watch: how long the API server keeps a watch open; then it goes on from where it was.
    silence: when an open watch or log without a byte counts as dead; longer than `watch`.
    unreachable: for how long a watch does without its API server.
    first_pause, longest_pause: between two tries; drawn at random below a bound that doubles.
    """

    connect: float = 10.0
    request: float = 30.0
    retry: float = 60.0
    watch: float = 30.0
    silence: float = 40.0
    unreachable: float = 600.0
    first_pause: float = 0.2
    longest_pause: float = 10.0


def is_worth_repeating(error: BaseException, *, is_harmless: bool) -> bool:
    """Whether a request is sent again: not now, and a second one does no harm."""
    return isinstance(error, Unavailable) and (is_harmless or error.is_unprocessed)


def pause(error: BaseException | None, drawn: float) -> float:
    """Seconds until the next try: what the API server asks for, or more where chance drew more."""
    asked = error.answer.retry_after if isinstance(error, Unavailable) else None
    return max(asked or 0.0, drawn)


async def persevere(
    ask: Callable[[], Awaitable[Value]],
    patience: Patience,
    *,
    seconds: float,
    is_worth: Callable[[BaseException], bool],
) -> Value:
    """Ask until there is an answer, for at most so many seconds. Raises the last error, with a note of the tries."""
    draw = wait_random_exponential(multiplier=patience.first_pause, max=patience.longest_pause)

    def wait(state: RetryCallState) -> float:
        return pause(_error(state), draw(state))

    def tell(state: RetryCallState) -> None:
        logger.info("%s Trying again in %.1f s.", _error(state), state.upcoming_sleep)

    def give_up(state: RetryCallState) -> Value:
        error = _error(state)
        assert error is not None  # tenacity asks only after a failed try
        tries = "once" if state.attempt_number == 1 else f"{state.attempt_number} times"
        error.add_note(f"Tried {tries} in {state.seconds_since_start or 0.0:.0f} s.")
        raise error

    async def once() -> Value:  # tenacity awaits what is a coroutine function, and nothing else
        return await ask()

    return await AsyncRetrying(
        retry=retry_if_exception(is_worth),
        wait=wait,
        stop=stop_before_delay(seconds),
        before_sleep=tell,
        retry_error_callback=give_up,
    )(once)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
