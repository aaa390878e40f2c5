"""A step is the function it was made of, until somebody wants to look at it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

import prefect_tpu as tpu
from prefect_tpu.infra.contract import Event, Scratch
from prefect_tpu.infra.scratch import read_progress
from prefect_tpu.infra.training import step


class Caught(Exception):
    pass


@pytest.fixture
def caught() -> Iterator[list[Any]]:
    seen: list[Any] = []

    def catch(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> NoReturn:
        seen.append((function, args, dict(kwargs)))
        raise Caught

    step.catch_with(catch)
    yield seen
    step.catch_with(None)


def doubled(x: int, *, more: int = 0) -> int:
    """Twice as much."""
    return 2 * x + more


def test_it_is_the_same_function() -> None:
    wrapped = tpu.step(doubled)
    assert wrapped(3, more=1) == 7
    assert (wrapped.__name__, wrapped.__doc__) == ("doubled", "Twice as much.")


def test_what_the_function_has_it_has_too() -> None:
    import jax

    wrapped = tpu.step(jax.jit(doubled))
    assert int(wrapped(3)) == 6
    assert "dot" not in wrapped.lower(3).as_text()
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = wrapped.nothing_such
    assert copy.copy(wrapped).__name__ == "doubled"


def test_a_method_knows_its_object() -> None:
    class Trainer:
        rate = 5

        @tpu.step
        def step(self, x: int) -> int:
            return self.rate * x

    assert Trainer().step(2) == 10


def test_its_first_call_is_caught(caught: list[Any]) -> None:
    with pytest.raises(Caught):
        tpu.step(doubled)(3, more=1)
    assert caught == [(doubled, (3,), {"more": 1})]


def test_what_a_first_call_takes_is_told_and_is_no_time_of_a_step(
    inside_job: Callable[..., Any], tmp_path: Path
) -> None:
    """An evaluation is called long after the first step, and compiled then."""
    inside_job()
    code = """
import time
import prefect_tpu as tpu

evaluate = tpu.step(lambda: time.sleep(2.0))
for step in range(26):
    if step == 25:
        evaluate()
    tpu.report(step)
"""
    subprocess.run([sys.executable, "-P", "-c", code], timeout=60, check=True)
    seen = read_progress(tmp_path / "scratch")
    assert seen.step == 25 and seen.step_seconds is not None
    assert seen.step_seconds < 0.05, "2 s of one of the last steps are 0.1 s of each"
    lines = map(json.loads, (tmp_path / "scratch" / Scratch.EVENTS).read_text().splitlines())
    (compiled,) = [line for line in lines if line["event"] == Event.COMPILED]
    assert 2.0 <= compiled["seconds"] < 10.0
