"""Every failure is played for real; the launcher names it, and begins anew where that helps."""

from __future__ import annotations

from collections.abc import Callable

import cases_platform
import cases_program
import cases_refused
import pytest
from case import Case
from play import Outcome
from snapshots import in_any_run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CASES = (*cases_platform.CASES, *cases_program.CASES, *cases_refused.CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_failure_has_its_kind_and_its_answer(case: Case, outcome_of: Callable[[Case], Outcome]) -> None:
    seen = outcome_of(case)
    assert (seen.failure.kind, seen.failure.retryable) == (case.kind, case.is_retryable), seen.failure
    if case.is_quick:
        assert (seen.state, seen.attempts) == ("succeeded", 2), seen.failure
        assert seen.ours is not None
    if seen.recording is not None:
        again = seen.recording.failure()
        assert again is not None
        assert again.kind == seen.failure.kind
        assert in_any_run(again.message) == in_any_run(seen.failure.message)
