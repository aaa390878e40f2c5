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
        ends = [attempt.outcome for attempt in seen.attempts]
        assert ends == [case.kind.value, "succeeded"], [attempt.failure for attempt in seen.attempts]
        assert seen.ours is not None
    if seen.recording is not None:
        again = seen.recording.failure()
        assert again is not None
        assert again.kind == seen.failure.kind
        assert not case.is_one_way or _without_reason(again.message) == _without_reason(seen.failure.message)


def _without_reason(message: str) -> str:
    """What a scheduler says of why it waits changes from look to look, and the recorder looks by itself."""
    return in_any_run(message).partition("(provision_timeout)")[0]
