"""What came in between, where it is no word of JAX or the compiler: a program without a step, and our own reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from prefect_tpu.infra.compiler.capture import NoStep, at_first_step
from prefect_tpu.infra.compiler.question import Target
from prefect_tpu.infra.compiler.report import ProblemKind
from prefect_tpu.infra.compiler.trouble import Stage, problem_in
from prefect_tpu.infra.training import step

TARGET = Target(kind="module", place="model", function="main", work="/")


async def later() -> None: ...


def values() -> Iterator[int]:
    yield 1


async def later_values() -> AsyncIterator[int]:
    yield 1


def test_what_cannot_be_read_of_a_compiled_step_is_no_fault_of_the_program() -> None:
    problem = problem_in(ValueError("instruction x"), TARGET, Stage(devices=8, is_compiled=True))
    assert problem.kind is ProblemKind.COMPILER
    assert "cannot be read: ValueError: instruction x" in problem.message
    assert problem_in(ValueError("x"), TARGET, Stage(devices=8)).kind is ProblemKind.PROGRAM


@pytest.fixture(autouse=True)
def _steps_are_called_again() -> Iterator[None]:
    yield
    step.catch_with(None)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (later, "main gave a coroutine, and nothing of that was done"),
        (values, "main gave a generator, and nothing of that was done"),
        (later_values, "main gave an asynchronous generator, and nothing of that was done"),
        (dict, "main came to its end and called no step"),
    ],
)
def test_what_did_nothing_is_called_by_its_name(program: Callable[..., Any], told: str) -> None:
    with pytest.raises(NoStep) as ended:
        at_first_step(program, {}, lambda call: call)
    if program is later:
        ended.value.returned.close()  # type: ignore[attr-defined]  # else Python warns that nobody awaited it
    problem = problem_in(ended.value, TARGET, Stage(devices=8))
    assert problem.kind is ProblemKind.PROGRAM
    assert told in problem.message and problem.advice
