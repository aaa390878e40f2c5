"""The schedule against a clock of ours: saves come in time, checks are few, and all hosts follow the leader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.training.schedule import LONGEST_WAIT, Check, Schedule, check


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Run:
    """Calls a schedule after each step of a given length and counts."""

    def __init__(self, every: float, longest: int = LONGEST_WAIT) -> None:
        self.clock, self.checks = Clock(), 0
        self.schedule = Schedule(every=every, agree=self.agree, longest=longest, clock=self.clock)

    def agree(self, own: Check) -> Check:
        self.checks += 1
        return own

    def saves(self, step_seconds: float, steps: int) -> list[float]:
        """Seconds between saves."""
        last, gaps = self.clock.now, []
        for _ in range(steps):
            self.clock.now += step_seconds
            if self.schedule.is_due():
                self.schedule.saved()
                gaps.append(self.clock.now - last)
                last = self.clock.now
        return gaps


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"call": 1, "since_saved": 0, "every": 600, "call_seconds": 0}, Check(due=False, next_call=2)),
        ({"call": 10, "since_saved": 500, "every": 600, "call_seconds": 1}, Check(due=False, next_call=60)),
        ({"call": 10, "since_saved": 599, "every": 600, "call_seconds": 1}, Check(due=False, next_call=11)),
        ({"call": 10, "since_saved": 600, "every": 600, "call_seconds": 1}, Check(due=True, next_call=310)),
        ({"call": 10, "since_saved": 0, "every": 600, "call_seconds": 1e-6}, Check(due=False, next_call=1010)),
        ({"call": 10, "since_saved": 0, "every": 1, "call_seconds": 9}, Check(due=False, next_call=11)),
    ],
)
def test_half_of_the_remaining_time_passes_until_the_next_check(facts: dict[str, float], expected: Check) -> None:
    assert check(**facts) == expected  # type: ignore[arg-type]


@given(st.floats(0.01, 20), st.floats(0.5, 900))
def test_saves_come_in_time_and_checks_are_few(step_seconds: float, every: float) -> None:
    run = Run(every)
    steps = min(20_000, int(4 * every / step_seconds) + 8)
    gaps = run.saves(step_seconds, steps)
    assert all(every <= gap + 1e-6 and gap <= every + 2 * step_seconds + 1e-6 for gap in gaps)
    assert len(gaps) >= int(steps * step_seconds / (every + 2 * step_seconds)) - 1
    assert run.checks <= 2 + (len(gaps) + 1) * 20 + steps / LONGEST_WAIT


def test_alone_every_call_is_a_check() -> None:
    run = Run(every=10, longest=1)
    run.saves(0.1, 50)
    assert run.checks == 50


def test_slower_steps_delay_a_save_by_half_the_time_at_most_times_the_slowdown() -> None:
    run = Run(every=100)
    run.saves(0.1, 20)
    assert max(run.saves(1.0, 2000)) <= 600


@given(st.lists(st.floats(0.001, 5), min_size=50, max_size=200), st.floats(0.2, 5))
def test_a_follower_checks_and_saves_at_the_leaders_calls(steps: list[float], skew: float) -> None:
    """Whatever the follower's own clock says."""
    said: list[Check] = []
    leader_clock, follower_clock = Clock(), Clock()

    def tell(own: Check) -> Check:
        said.append(own)
        return own

    leader = Schedule(every=7, agree=tell, clock=leader_clock)
    follower = Schedule(every=7, agree=lambda own: said.pop(), clock=follower_clock)
    for seconds in steps:
        leader_clock.now += seconds
        follower_clock.now += seconds * skew
        due = leader.is_due()
        assert follower.is_due() == due and not said
        if due:
            leader.saved()
            follower.saved()
