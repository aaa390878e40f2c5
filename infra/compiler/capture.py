"""How far does a program run? To the first call of its step, whose function and arguments are wanted."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from prefect_tpu.infra.compiler.question import Target
from prefect_tpu.infra.host.payload import WORK, unpack
from prefect_tpu.infra.host.program import load
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.training import step

T = TypeVar("T")


class NoStep(Exception):
    """The program came to its end, and no step was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The first call of a step."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class _Caught(BaseException):
    """Ends the program at its step; no `except Exception` of its own keeps it."""

    def __init__(self, call: Call) -> None:
        self.call = call


def loaded(target: Target, scratch: Path) -> Callable[..., Any]:
    """What is called with the parameters. Importing it runs whatever its module does on import."""
    if target.kind == "script":
        return _script(target)
    if target.kind == "function":
        unpack(open_storage(target.folder), target.payload, scratch / WORK)
        return load(Program(kind="function", target=target.place), scratch / WORK)
    return load(Program(kind=target.kind, target=f"{target.place}:{target.function}"), Path(target.work))


def first_step(program: Callable[..., Any], params: Mapping[str, Any]) -> Call:
    """The first call of the program's step.

    Raises `NoStep`, or whatever the program raises on its way there.
    """
    step.catch_with(_throw)
    try:
        program(**params)
    except _Caught as caught:
        return caught.call
    except SystemExit as exc:
        if exc.code not in (None, 0):
            raise
    raise NoStep


def look_into(call: Call, look: Callable[[Call], T]) -> T:
    """What `look` makes of a call; of a step of `flax.nnx.jit`, of the call of JAX inside it.

    That one is given arrays in place of modules, and only inside the outer call can it be traced.
    """
    outer: Any = call.function
    inner = getattr(outer, "jitted_fn", None)
    if inner is None:
        return look(call)
    seen: list[T] = []

    def instead(*args: Any, **kwargs: Any) -> NoReturn:
        seen.append(look(Call(function=inner, args=args, kwargs=kwargs)))
        raise _Caught(call)

    outer.jitted_fn = instead
    try:
        outer(*call.args, **call.kwargs)
    except _Caught:
        pass
    finally:
        outer.jitted_fn = inner
    return seen[0]


def _throw(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NoReturn:
    raise _Caught(Call(function=function, args=args, kwargs=kwargs))


def _script(target: Target) -> Callable[..., Any]:
    def run() -> None:
        sys.argv = [target.place, *target.arguments]
        if target.work not in sys.path:
            sys.path.insert(0, target.work)
        runpy.run_path(target.place, run_name="__main__")

    return run
