"""Which call of a program is its training step? It says so, and then that can be compiled before there is a slice."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any, Generic, NoReturn, ParamSpec, TypeVar

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.training.progress import progress
from prefect_tpu.infra.training.report import leave_out

P = ParamSpec("P")
R = TypeVar("R")
Catch = Callable[[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]], NoReturn]

_catch: Catch | None = None


def catch_with(catch: Catch | None) -> None:
    """From now on each call of a step goes there instead, for who looks at it; with None, to the step again."""
    global _catch
    _catch = catch


def step(function: Callable[P, R]) -> Step[P, R]:
    """The same function, known as the program's training step: `step = tpu.step(train_step)`, or as a decorator.

    `prefect-tpu compile` runs the program up to the first call of its step, and asks Google's TPU compiler about that.
    In a job the ledger has an event `compiled` with the seconds of the first call, which traces and compiles. They
    count for no step of `report`.

    Args:
        function: one step on arrays, with `jax.jit` or without; a plain one is compiled whole where it is looked at.
    """
    return Step(function)


class Step(Generic[P, R]):
    """See `step`. Whatever else the function has, such as `lower`, this has too."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._is_new = function, True

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if _catch is not None:
            _catch(self._function, args, kwargs)
        if self._is_new:
            self._is_new = False
            return self._first(*args, **kwargs)
        return self._function(*args, **kwargs)

    def _first(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """JAX comes back from a call before its values are there, but only once the step is compiled.

        What it took counts for no step of `report`: a program may call another step, such as an evaluation, long after
        its first one, and a host that compiles it where others find it in their cache is not slow.
        """
        began = time.monotonic()
        value = self._function(*args, **kwargs)
        seconds = time.monotonic() - began
        progress().event(Event.COMPILED, seconds=round(seconds, 3))
        leave_out(seconds)
        return value

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # of a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self._function, name)
