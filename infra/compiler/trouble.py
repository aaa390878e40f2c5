"""What is wrong where no step could be compiled? From the exception that came in between to a problem."""

from __future__ import annotations

import traceback

from prefect_tpu.infra.compiler.capture import NoStep
from prefect_tpu.infra.compiler.lowering import WrongDevices
from prefect_tpu.infra.compiler.question import Target
from prefect_tpu.infra.compiler.report import Problem, ProblemKind


def problem_of(exc: BaseException, target: Target) -> Problem:
    """The problem that an exception is."""
    if isinstance(exc, NoStep):
        return _no_step(target)
    if isinstance(exc, WrongDevices):
        return _wrong_devices(exc)
    return Problem(
        kind=ProblemKind.PROGRAM,
        message=f"{type(exc).__name__}: {exc}",
        where=str(traceback.extract_tb(exc.__traceback__)[-1]),
        advice="Look there.",
    )


def _no_step(target: Target) -> Problem:
    name = target.function or target.place
    return Problem(
        kind=ProblemKind.PROGRAM,
        message=f"{name} came to its end and called no step that is known as one",
        where="",
        advice="Say which call is its training step: step = tpu.step(train_step), or @tpu.step above @jax.jit. Or name"
        " a function lower(mesh, …) that returns jax.jit(step).lower(…).",
    )


def _wrong_devices(exc: WrongDevices) -> Problem:
    return Problem(
        kind=ProblemKind.WRONG_DEVICES,
        message=f"the step runs on {exc.used} of {exc.there} devices, and the others would be paid for idle",
        where="",
        advice='Lay its arguments over all devices: tpu.mesh({"data": -1}) takes as many as there are.',
    )
