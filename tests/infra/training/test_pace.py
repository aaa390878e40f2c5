"""What a step takes a host, and how much of it is its own."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.training.pace import LAST, WARM_UP, Pace


def test_the_first_steps_say_nothing_and_count_for_nothing() -> None:
    pace = Pace()
    for _ in range(WARM_UP):
        pace.add(30.0, 0.0)
    for _ in range(LAST - 1):
        pace.add(0.1, 0.06)
    assert pace.facts == {}
    pace.add(0.1, 0.06)
    assert pace.facts == {"step_seconds": pytest.approx(0.1), "own_seconds": pytest.approx(0.04)}


def test_the_mean_follows_the_last_steps() -> None:
    pace = Pace()
    for seconds in [0.1] * 100 + [0.5] * 100:
        pace.add(seconds, 0.0)
    assert pace.facts["step_seconds"] == pytest.approx(0.5, abs=0.002)
