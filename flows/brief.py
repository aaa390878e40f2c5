"""How long is the traceback of an error that explains itself? As long as the caller's own code."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from prefect_tpu.infra.errors import PrefectTpuError, UsageError

P = ParamSpec("P")
R = TypeVar("R")


def brief(function: Callable[P, R]) -> Callable[P, R]:
    """Raise errors of ours without their way through our code and Prefect's: the message is what helps.

    So is an interrupt. What made a call unusable is in its message too; what the platform said stays as the cause.
    With Prefect's logging level DEBUG every error keeps its whole way.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (UsageError, KeyboardInterrupt) as exc:
            if shows_everything():
                raise
            raise exc.with_traceback(None) from None
        except PrefectTpuError as exc:
            if shows_everything():
                raise
            raise exc.with_traceback(None) from exc.__cause__

    return call


def shows_everything() -> bool:
    """Whether somebody debugs. Asked without Prefect, which a host need not have."""
    return logging.getLogger("prefect").isEnabledFor(logging.DEBUG)
