"""How far does a program run? To the first call of its step, which is looked at right there, and then it is ended."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from prefect_tpu.infra.compiler.question import Target
from prefect_tpu.infra.host.payload import WORK, unpack
from prefect_tpu.infra.host.program import load
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.training import step

T = TypeVar("T")


class NoStep(Exception):
    """The program came to its end, and no step was called. `returned` is what it gave."""

    def __init__(self, returned: object) -> None:
        self.returned = returned
        super().__init__("no step was called")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The first call of a step."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class _Ended(BaseException):
    """Ends the program at its step; no `except Exception` of its own keeps it."""


def loaded(target: Target, scratch: Path) -> Callable[..., Any]:
    """What is called with the parameters. Importing it runs whatever its module does on import."""
    if target.kind == "script":
        return _script(target)
    if target.kind == "function":
        unpack(open_storage(target.folder), target.payload, scratch / WORK)
        return load(Program(kind="function", target=target.place), scratch / WORK)
    return load(Program(kind=target.kind, target=f"{target.place}:{target.function}"), Path(target.work))


def at_first_step(program: Callable[..., Any], params: Mapping[str, Any], look: Callable[[Call], T]) -> T:
    """What `look` makes of the first call of the program's step: in the thread and the contexts of that call.

    So it holds even where the program catches what ends it, or raises something else on its way out.

    Raises `NoStep`, what `look` raises, or whatever the program raises on its way to its step.
    """
    catching, returned = _Catching(look), None
    step.catch_with(catching)
    try:
        returned = program(**params)
    except _Ended:
        pass
    except SystemExit as exc:
        if exc.code not in (None, 0) and not catching.seen:
            raise
    except BaseException:
        if not catching.seen:
            raise
    finally:
        catching.leave_copies()
    return catching.found(returned)


class _Catching(Generic[T]):
    """What happens at each call of a step: the first is looked at."""

    def __init__(self, look: Callable[[Call], T]) -> None:
        self._look, self._process = look, os.getpid()
        self.seen: list[T | Exception] = []

    def __call__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NoReturn:
        self.leave_copies()
        if not self.seen:
            call = Call(function=function, args=args, kwargs=kwargs)
            try:
                self.seen.append(_look_into(call, self._look))
            except Exception as exc:
                self.seen.append(exc)
        raise _Ended

    def leave_copies(self) -> None:
        """A fork of this process has nothing to say: its questions and answers are ours."""
        if os.getpid() != self._process:
            os._exit(0)

    def found(self, returned: object) -> T:
        if not self.seen:
            raise NoStep(returned)
        first = self.seen[0]
        if isinstance(first, Exception):
            raise first
        return first


def _look_into(call: Call, look: Callable[[Call], T]) -> T:
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
        raise _Ended

    outer.jitted_fn = instead
    try:
        outer(*call.args, **call.kwargs)
    except _Ended:
        pass
    finally:
        outer.jitted_fn = inner
    return seen[0]


def _script(target: Target) -> Callable[..., Any]:
    def run() -> None:
        sys.argv = [target.place, *target.arguments]
        if target.work not in sys.path:
            sys.path.insert(0, target.work)
        runpy.run_path(target.place, run_name="__main__")

    return run
