"""Trials that report when they happen to are compared at the same steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.policy.ladder import TO_A_DOUBLING, climbed, rungs


def test_the_rungs_are_close_at_first_and_four_to_each_doubling_later() -> None:
    assert list(rungs(40)) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]
    assert len(list(rungs(10**6))) < 80
    for doubling in (8, 64, 4096):
        assert sum(doubling < rung <= 2 * doubling for rung in rungs(10**5)) == TO_A_DOUBLING


def test_a_value_between_two_reports_lies_on_the_line_between_them() -> None:
    assert climbed({1: 4.0, 3: 2.0}) == [(1, 4.0), (2, 3.0), (3, 2.0)]
    assert climbed({8: 8.0, 12: 4.0}) == [(8, 8.0), (10, 6.0), (12, 4.0)]


def test_nothing_is_made_up_before_the_first_report_or_beyond_the_last() -> None:
    assert climbed({}) == []
    assert climbed({5: 1.0}) == [(5, 1.0)]
    assert climbed({9: 1.0}) == []  # no rung, and none between two reports
    assert climbed({9: 1.0, 11: 3.0}) == [(10, 2.0)]


def test_only_what_is_new_is_told() -> None:
    curve = {1: 4.0, 3: 2.0}
    assert climbed(curve, above=1) == [(2, 3.0), (3, 2.0)]
    assert climbed(curve, above=3) == []


@given(st.dictionaries(st.integers(1, 3000), st.floats(-1e6, 1e6), max_size=30), st.integers(0, 3000))
def test_however_a_trial_reports_what_is_known_early_is_what_is_known_late(curve: dict[int, float], cut: int) -> None:
    early = {step: value for step, value in curve.items() if step <= cut}
    told = climbed(early)
    last = told[-1][0] if told else 0
    assert told + climbed(curve, above=last) == climbed(curve)
    for rung, value in climbed(curve):
        assert min(curve) <= rung <= max(curve)
        assert min(curve.values()) - 1e-6 <= value <= max(curve.values()) + 1e-6


@pytest.mark.parametrize("upto", [0, 1, 2])
def test_there_may_be_few(upto: int) -> None:
    assert list(rungs(upto)) == list(range(1, upto + 1))
