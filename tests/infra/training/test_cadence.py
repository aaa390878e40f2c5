"""A step is due by its number or by its metric too, alike on all hosts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.retention import Best, Rule
from prefect_tpu.infra.training.cadence import BestSoFar, Cadence, check_asked, passes, rule
from prefect_tpu.infra.training.checkpoints import EVERY
from prefect_tpu.infra.training.schedule import Check, Schedule

BEST = Best(metric="loss", mode="min", count=2)
NEVER = 3600.0


def cadence(steps: int | None = None, best: BestSoFar | None = None, every: float = NEVER) -> Cadence:
    schedule = Schedule(every=every, agree=lambda own: own)
    return Cadence(schedule=schedule, steps=steps, best=best or BestSoFar(None, [], bool))


def due(made: Cadence, steps: range) -> list[int]:
    return [step for step in steps if made.is_due(step, {})]


def test_ten_minutes_are_usual_inside_a_job_and_outside(make_job: Callable[..., SliceJob]) -> None:
    assert make_job().checkpoint_every == EVERY == 600


@pytest.mark.parametrize(
    ("steps", "called", "expected"),
    [
        (100, range(400), [99, 199, 299, 399]),
        (1, range(3), [0, 1, 2]),
        (100, range(0, 400, 7), [105, 203, 301, 399]),
        (100, range(0, 400, 50), [100, 200, 300]),
        (None, range(400), []),
    ],
)
def test_each_so_many_steps(steps: int | None, called: range, expected: list[int]) -> None:
    assert due(cadence(steps), called) == expected


def test_after_a_restored_step_the_same_steps_are_saved() -> None:
    made = cadence(100)
    made.begin_after(137)
    assert due(made, range(138, 400)) == [199, 299, 399]


@given(st.integers(1, 50), st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_no_multiple_is_passed_by(each: int, gaps: list[int]) -> None:
    step, saved = -1, 0
    for gap in gaps:
        before, step = step, step + gap
        saved += passes(step, before, each)
    assert saved <= (step + 1) // each
    assert passes(step, -1, each) == ((step + 1) // each > 0)


def test_the_best_ones_are_due_and_the_leader_s_value_counts() -> None:
    """A follower's own value differs; it saves where the leader does."""
    said = list[bool]()
    leader = cadence(best=BestSoFar(BEST, [0.5], lambda own: said.append(own) or own))
    follower = cadence(best=BestSoFar(BEST, [], lambda own: said.pop()))
    found = []
    for step, loss in enumerate([0.7, 0.9, 0.6, 0.6, 0.4]):
        found.append(leader.is_due(step, {"loss": loss, "other": 1}))
        assert follower.is_due(step, {"loss": -loss}) == found[-1]
        if found[-1]:
            leader.saved({"loss": loss})
            follower.saved({"loss": -loss})
    assert found == [True, False, True, False, True]
    assert not leader.is_due(9, {"other": 0.0}), "it was not measured at that step, and nobody is asked"


def test_a_metric_that_never_came_is_known() -> None:
    assert BestSoFar(BEST, [0.1], bool).was_asked, "by an earlier run"
    made = BestSoFar(BEST, [], bool)
    assert not made.was_asked
    assert made.is_due({"loss": 0.2}) and made.was_asked
    with pytest.raises(UsageError, match="metric 'loss' is no number but a str"):
        made.is_due({"loss": "low"})


def test_time_counts_beside_the_steps_and_can_be_left_out() -> None:
    assert due(cadence(100, every=1e-9), range(5)) == [0, 1, 2, 3, 4]
    assert due(cadence(3, every=float("inf")), range(9)) == [2, 5, 8]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, None),
        ({"keep": 5}, Rule(newest=5)),
        ({"best": ("loss", "min", 2)}, Rule(best=BEST)),
        ({"best": ["loss", "min", 2], "keep": 1}, Rule(newest=1, best=BEST)),
    ],
)
def test_what_stays_as_it_is_asked_for(asked: dict[str, Any], expected: Rule | None) -> None:
    assert rule("checkpoints", asked.get("best"), asked.get("keep")) == expected


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"best": "loss"}, "give \\(metric, 'min' or 'max', how many\\)"),
        ({"best": ("loss", "min")}, "give \\(metric"),
        ({"best": ("loss", "lowest", 1)}, "'min' or 'max'"),
        ({"keep": 0}, "keep=0"),
        ({"steps": 0}, "steps=0"),
        ({"steps": True}, "steps=True"),
        ({"steps": 2.5}, "steps=2.5"),
        ({"every": 0}, "every=0"),
        ({"every": float("nan")}, "every=nan"),
        ({"every": "10m"}, "every='10m'"),
        ({"every": np.float64(-1)}, r"every=-1.0\)"),
        ({"keep": np.int64(3)}, "keep=3, a numpy int64"),
        ({"best": ("loss", "min", np.int64(3))}, "'min', 3, a numpy int64"),
        ({"best": (3, "min", 1)}, "give the name of a metric"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_asked("checkpoints", asked.get("every"), asked.get("steps"))
        rule("checkpoints", asked.get("best"), asked.get("keep"))


def test_a_schedule_without_time_is_asked_as_seldom_as_any() -> None:
    calls = list[int]()

    def agree(own: Check) -> Check:
        calls.append(own.next_call)
        return own

    made = Cadence(schedule=Schedule(every=float("inf"), agree=agree), steps=None, best=BestSoFar(None, [], bool))
    assert due(made, range(2500)) == [] and len(calls) <= 5
