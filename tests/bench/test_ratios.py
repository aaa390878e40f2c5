"""Figures are ratios of pairs, measured in turn, and the page says whether a goal was met."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package

from page import page, renewed, row  # noqa: E402
from ratios import Contender, Experiment, Figure  # noqa: E402


def scripted(name: str, seconds: list[float], calls: list[str]) -> Callable[[], float]:
    left: Iterator[float] = iter(seconds)

    def measure() -> float:
        calls.append(name)
        return next(left)

    return measure


def contender(seconds: Callable[[], float] = lambda: 1.0, **goals: float) -> Contender:
    return Contender(what="a start", how="Cold.", seconds=seconds, **goals)


def figure(ours: list[float], other: list[float], **goals: float) -> Figure:
    return Figure(contender=contender(**goals), against="bare", ours=ours, other=other)


def test_sides_are_measured_in_turn_and_the_warm_up_is_forgotten() -> None:
    calls: list[str] = []
    sides = [contender(scripted(name, seconds, calls)) for name, seconds in (("a", [9, 2, 3]), ("b", [9, 4, 6]))]
    experiment = Experiment(against="c", other=scripted("c", [9, 1, 2], calls), contenders=tuple(sides))
    first, second = experiment.carry_out(2)
    assert calls == ["a", "b", "c"] * 3
    assert (first.ratios, second.ratios) == ([2, 1.5], [4, 3])


@pytest.mark.parametrize(
    ("goals", "wanted"),
    [
        ({}, None),
        ({"goal": 1.5}, True),
        ({"goal": 1.4}, False),
        ({"goal_seconds": 3.0}, True),
        ({"goal_seconds": 2.9}, False),
        ({"goal": 1.5, "goal_seconds": 2.9}, False),
    ],
)
def test_the_median_decides_whether_a_goal_is_met(goals: dict[str, float], wanted: bool | None) -> None:
    assert figure([2.0, 3.0, 40.0], [2.0, 2.0, 2.0], **goals).is_met is wanted


def test_the_page_has_a_row_and_an_explanation_for_each_figure() -> None:
    shown = figure([2.0, 3.0, 40.0], [2.0, 2.0, 2.0], goal=1.4)
    assert row(shown) == ("a start", "1.500", "1.000", "20.000", "≤ 1.40", "missed", "3.00", "2.00", "3")
    text = page([shown], [("Python", "3.11")])
    assert "| a start | 1.500 | 1.000 | 20.000 | ≤ 1.40 | missed | 3.00 | 2.00 | 3 |\n" in text
    assert "- **a start** ÷ bare. Cold.\n" in text
    assert "- Python: 3.11\n" in text


def test_figures_that_are_measured_anew_take_their_places_on_the_page() -> None:
    facts = [("Python", "3.11")]
    before = page([figure([1.0], [1.0]), named("a stop", [4.0])], facts)
    after = renewed(before, [named("a stop", [8.0]), named("a pause", [2.0])], facts)
    assert after == page([figure([1.0], [1.0]), named("a stop", [8.0]), named("a pause", [2.0])], facts)
    with pytest.raises(ValueError, match="another Python: measure all of it"):
        renewed(before, [named("a stop", [8.0])], [("Python", "3.12")])


def named(what: str, ours: list[float]) -> Figure:
    made = Contender(what=what, how="Warm.", seconds=lambda: 1.0)
    return Figure(contender=made, against="bare", ours=ours, other=[1.0] * len(ours))
