"""What came in between, where no step could be compiled? From an exception of this process to a problem."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect_tpu.infra.compiler.capture import NoStep
from prefect_tpu.infra.compiler.lowering import WrongDevices
from prefect_tpu.infra.compiler.problems import problem_of
from prefect_tpu.infra.compiler.question import Target
from prefect_tpu.infra.compiler.raised import Frame, Raised
from prefect_tpu.infra.compiler.report import Problem, ProblemKind

# Whose lines are none of the person's: what they have of ours, and Python's own.
_LIBRARIES = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"))
_UNDONE: Mapping[type, str] = {
    types.CoroutineType: "a coroutine",
    types.GeneratorType: "a generator",
    types.AsyncGeneratorType: "an asynchronous generator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How far a question had come.

    devices: JAX devices that the slices have.
    function: which one was run or compiled; None where there was none yet.
    arguments: bytes of a device that the step's arguments take; None where it did not come so far.
    is_compiled: whether the step was, so that nothing of the program's came after.
    """

    devices: int
    function: Callable[..., Any] | None = None
    arguments: int | None = None
    is_compiled: bool = False


def problem_in(exc: BaseException, target: Target, stage: Stage) -> Problem:
    """The problem that an exception is."""
    if isinstance(exc, NoStep):
        return _no_step(target, exc.returned)
    if isinstance(exc, WrongDevices):
        return _wrong_devices(exc)
    if stage.is_compiled:
        return _unread(exc)
    text = f"it left by sys.exit({exc.code!r})" if isinstance(exc, SystemExit) else str(exc)
    raised = Raised(
        type=type(exc).__name__,
        text=text,
        frames=(*_frame_of(stage.function), *_frames(exc)),
        arguments=stage.arguments,
        devices=stage.devices,
    )
    return problem_of(raised, _LIBRARIES)


def _frame_of(function: Callable[..., Any] | None) -> Iterator[Frame]:
    """The line that a function begins at: where to look when nothing tells more."""
    code = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
    if code is not None:
        yield Frame(file=code.co_filename, line=code.co_firstlineno, function=code.co_name)


def _frames(exc: BaseException) -> Iterator[Frame]:
    """The exception's own, then those of what it came from: JAX keeps the program's line of an operation there."""
    for one in (exc, exc.__cause__):
        if one is not None:
            for frame in traceback.extract_tb(one.__traceback__):
                yield Frame(file=frame.filename, line=frame.lineno or 0, function=frame.name)


def _no_step(target: Target, returned: object) -> Problem:
    name = target.function or target.place
    if kind := _undone(returned):
        return Problem(
            kind=ProblemKind.PROGRAM,
            message=f"{name} gave {kind}, and nothing of that was done.",
            where="",
            advice="Name a plain function that does the work: by asyncio.run(…), or by a loop over the values.",
        )
    return Problem(
        kind=ProblemKind.PROGRAM,
        message=f"{name} came to its end and called no step that is known as one.",
        where="",
        advice="Say which call is its training step: step = tpu.step(train_step), or @tpu.step above @jax.jit. Or name"
        " a function lower(mesh, …) that returns jax.jit(step).lower(…).",
    )


def _undone(returned: object) -> str:
    """What a function gave whose body nobody has run yet; empty for any other value."""
    return _UNDONE.get(type(returned), "")


def _wrong_devices(exc: WrongDevices) -> Problem:
    if exc.used:
        message = f"The step runs on {exc.used} of {exc.there} devices, and the others would be paid for idle."
        advice = 'Lay its arguments over all devices: tpu.mesh({"data": -1}) takes as many as there are.'
    else:
        message = "The step was lowered for devices of this machine, and not for the slice's."
        advice = "Give its abstract arguments a sharding on the mesh that lower(mesh, …) is called with."
    return Problem(kind=ProblemKind.WRONG_DEVICES, message=message, where="", advice=advice)


def _unread(exc: BaseException) -> Problem:
    """Of our own reading of the compiler's words, which change with its version."""
    return Problem(
        kind=ProblemKind.COMPILER,
        message=f"The step compiles, and what the compiler says of it cannot be read: {type(exc).__name__}: {exc}",
        where="",
        advice="It is no fault of the program: report it with these versions, or ask with another jax[tpu].",
    )
