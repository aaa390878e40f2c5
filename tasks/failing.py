"""How does a run end that fails for a reason of ours? With the message as its state, told once.

Prefect would log the whole way through its engine for each task and again for
the flow; our messages say what happened and what to do by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Failed

from prefect_tpu.infra.errors import PrefectTpuError

P = ParamSpec("P")
R = TypeVar("R")


def failed(exc: PrefectTpuError) -> State[Any]:
    """The state of a run that failed; what else the exception has to tell goes to the log."""
    for note in getattr(exc, "__notes__", ()):
        get_run_logger().error("%s", note)
    return Failed(message=f"{type(exc).__name__}: {exc}", data=exc)


def failing_in_words(function: Callable[P, R]) -> Callable[P, R]:
    """Let a task end in such a state. Prefect hands that out as the task's value: ask `value_of`."""

    @wraps(function)
    def carry_out(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PrefectTpuError as exc:
            return cast(R, failed(exc))

    return carry_out


def value_of(returned: R) -> R:
    """What such a task returned. Raises what it failed with."""
    if isinstance(returned, State):
        # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
        returned.result(raise_on_failure=True, _sync=True)  # type: ignore[call-overload]
    return returned
