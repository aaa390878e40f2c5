"""What nobody can want any more is ended, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.policy.leftovers import MARGIN_SECONDS, Leftover, Limits, why_to_end

LIMITS = Limits(grace=30.0, orphan_after=60.0, deadline=100.0)
LIVE = Leftover(
    attempt=2,
    newest_attempt=2,
    limits=LIMITS,
    outcome=None,
    end=None,
    is_driven=True,
    undriven_for=3.0,
    age=50.0,
)
LEFT = replace(LIVE, is_driven=False)
MADE = replace(LIVE, limits=None, has_job=True, comes_first=True)  # for an attempt that has no plan yet
NOBODYS = replace(MADE, is_driven=False)
RUNS_ON = Limits(grace=30.0, orphan_after=None, deadline=None)  # though nobody drives it, as in a cluster
IDLE = replace(NOBODYS, limits=RUNS_ON, undriven_for=601.0, is_over=True)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (LIVE, None),
        (LEFT, None),  # its driver died a moment ago: it is found again, or leaves by itself
        (replace(LEFT, undriven_for=120.1), "nobody has driven it for 120 s"),
        (replace(LEFT, undriven_for=119.9), None),
        (replace(LEFT, undriven_for=1e9, limits=replace(LIMITS, orphan_after=None)), None),
        (replace(LEFT, outcome="preempted"), r"the attempt has ended \(preempted\)"),
        (replace(LEFT, end="succeeded"), r"its job has ended \(succeeded\)"),
        (replace(LEFT, newest_attempt=3), "attempt 3 has taken its place"),
        (replace(LIVE, outcome="preempted"), None),  # its driver ends it
        (replace(LIVE, newest_attempt=3), None),
        (replace(LIVE, age=160.1), "past its deadline of 100 s"),
        (replace(LIVE, age=159.9), None),
        (replace(LIVE, age=1e9, limits=replace(LIMITS, deadline=None)), None),
        (replace(LEFT, limits=None), "its job's folder is gone"),
        (replace(LIVE, limits=None), "its job's folder is gone"),
        (replace(LEFT, limits=None, age=MARGIN_SECONDS), None),
        (replace(LIVE, overdue=7.0), "7 s past its deadline"),  # whatever else is known
        (replace(MADE, overdue=0.0), "0 s past its deadline"),
        (MADE, None),  # somebody is about to begin the attempt
        (replace(MADE, newest_attempt=3), None),  # its driver gives it back
        (NOBODYS, None),
        (replace(NOBODYS, end="stopped"), r"its job has ended \(stopped\)"),
        (replace(NOBODYS, newest_attempt=3), "attempt 3 has taken its place"),
        (replace(NOBODYS, undriven_for=601.0), "nobody has driven its job for 601 s, and its attempt has not begun"),
        (IDLE, "nobody has driven its job for 601 s, and nothing runs on it any more"),
        (replace(IDLE, undriven_for=599.0), None),
        (replace(IDLE, is_over=False), None),
        (replace(IDLE, is_driven=True), None),
        (replace(IDLE, comes_first=False), None),  # what is left of it says how it ended
        (replace(MADE, has_job=False), "its job's folder is gone"),
        (replace(MADE, comes_first=False), "its job's folder is gone"),
    ],
)
def test_the_table(found: Leftover, why: str | None) -> None:
    reason = why_to_end(found)
    assert (reason is None) == (why is None)
    if why is not None:
        assert reason is not None and re.search(why, reason)


@given(st.floats(0, 1e6), st.floats(0, 159), st.booleans(), st.integers(1, 9), st.none() | st.just("host_lost"))
def test_a_job_that_is_driven_and_within_its_deadline_is_never_touched(
    undriven: float, age: float, has_ended: bool, newest: int, outcome: str | None
) -> None:
    end = "failed" if has_ended else None
    found = replace(LIVE, undriven_for=undriven, age=age, end=end, newest_attempt=newest, outcome=outcome)
    assert why_to_end(found) is None
