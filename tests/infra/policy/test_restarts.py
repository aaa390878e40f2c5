"""After an end: again, when, or give up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.policy.capacity import CAPACITY
from prefect_tpu.infra.policy.failure_kinds import RETRYABLE, failure
from prefect_tpu.infra.policy.restarts import LONGEST_WAIT_SECONDS, Budget, GiveUp, Restart, after

PROGRAM = {FailureKind.PROGRAM_ERROR, FailureKind.OUT_OF_MEMORY}
Ends = list[tuple[FailureKind, int | None]]
LOST, ERROR = FailureKind.HOST_LOST, FailureKind.PROGRAM_ERROR


def attempts(ends: Ends) -> list[AttemptSummary]:
    """From how each ended and the newest step it saved."""
    return [
        AttemptSummary(
            number=number, accelerator="v6e-16", started=0.0, ended=1.0, outcome=kind.value,
            failure=failure(kind, "it happened"), saved_step=saved,
        )
        for number, (kind, saved) in enumerate(ends, start=1)
    ]  # fmt: skip


def budget(max_preemptions: int = 10, max_failures: int = 0) -> Budget:
    return Budget(max_preemptions=max_preemptions, max_failures=max_failures, provision_timeout=100.0)


@pytest.mark.parametrize(
    ("ends", "wait"),
    [
        ([(LOST, 10)], 0.0),
        ([(LOST, None)], 5.0),
        ([(LOST, None)] * 2, 10.0),
        ([(LOST, None)] * 3, 20.0),
        ([(LOST, None)] * 7, 300.0),
        ([(LOST, None)] * 10, 300.0),
        ([(LOST, None)] * 11, None),
        ([(LOST, 10), (LOST, 20), (LOST, 30)], 0.0),
        ([(LOST, 10), (LOST, 10)], 5.0),  # the same step again is no progress
        ([(LOST, 10), (LOST, 5)], 5.0),
        ([(LOST, None)] * 9 + [(LOST, 1)], 0.0),
        ([(LOST, None)] * 9 + [(LOST, 1), (LOST, None)], 5.0),  # waits grow anew, the budget does not
        ([(LOST, None)] * 9 + [(LOST, 1), (LOST, None), (LOST, None)], None),
        ([(ERROR, None)], None),
        ([(ERROR, 99)], None),  # progress does not excuse a program
        ([(FailureKind.OUT_OF_MEMORY, None)], None),
        ([(FailureKind.DEADLINE, 10)], None),
        ([(FailureKind.REFUSED, None)], None),
        ([(FailureKind.STOPPED, None)], None),
        ([(FailureKind.UNKNOWN, None)], 5.0),
        ([(FailureKind.STALLED, 3)], 0.0),
        ([(FailureKind.MAINTENANCE, 3)], 0.0),
        ([(FailureKind.MAINTENANCE, None)], 5.0),
        ([(FailureKind.IMAGE, None)], None),
        ([(FailureKind.NO_QUOTA, None)], None),
        ([(FailureKind.UNSCHEDULABLE, None)], 5.0),
        ([(FailureKind.NO_CAPACITY, None)] * 3, 20.0),
        ([(FailureKind.NO_CAPACITY, None)] * 20, 300.0),  # it is time that bounds them, not their number
        ([(FailureKind.NO_CAPACITY, None), (LOST, None), (FailureKind.NO_CAPACITY, None)], 5.0),
    ],
)
def test_the_decision(ends: Ends, wait: float | None) -> None:
    decision = after(attempts(ends), budget())
    assert (decision.wait_seconds if isinstance(decision, Restart) else None) == wait
    assert decision.reason


def test_program_errors_have_a_budget_of_their_own() -> None:
    ends: Ends = [(ERROR, None), (LOST, None), (ERROR, None)]
    assert after(attempts(ends), budget(1, 2)) == Restart(wait_seconds=0.0, reason="failure 2 of 2 allowed")
    assert after(attempts(ends), budget(1, 1)) == GiveUp(reason="program_error after 2 of 1 allowed failures")
    assert after(attempts([(LOST, None)]), budget(0, 9)) == GiveUp(reason="1 disruptions without progress, 0 allowed")


ends_of_attempts = st.lists(
    st.tuples(st.sampled_from(FailureKind), st.none() | st.integers(0, 20)), min_size=1, max_size=25
)


@given(ends_of_attempts, st.integers(0, 4), st.integers(0, 3))
@settings(max_examples=80)
def test_budgets_are_never_exceeded_progress_is_free_and_waits_are_bounded(
    ends: Ends, max_preemptions: int, max_failures: int
) -> None:
    fruitless = failed = 0
    newest = -1
    for index, (kind, saved) in enumerate(ends):
        decision = after(attempts(ends[: index + 1]), budget(max_preemptions, max_failures))
        progress = saved is not None and saved > newest
        failed += kind in PROGRAM
        fruitless += kind not in PROGRAM | CAPACITY and not progress
        newest = max(newest, -1 if saved is None else saved)
        if isinstance(decision, GiveUp):
            assert failed > max_failures or fruitless > max_preemptions or kind not in RETRYABLE
            return
        assert failed <= max_failures
        assert fruitless <= max_preemptions
        assert 0 <= decision.wait_seconds <= LONGEST_WAIT_SECONDS == 300
        assert (decision.wait_seconds == 0) == (kind not in CAPACITY and (progress or kind in PROGRAM))


@given(st.integers(1, 400))
@settings(max_examples=30)
def test_waits_without_progress_only_grow(many: int) -> None:
    def wait(times: int) -> float:
        decision = after(attempts([(LOST, None)] * times), budget(1000))
        assert isinstance(decision, Restart)
        return decision.wait_seconds

    assert wait(many) <= wait(many + 1)


def test_attempts_without_a_slice_cost_no_budget_of_those_that_had_one() -> None:
    ends: Ends = [(FailureKind.NO_CAPACITY, None), (LOST, None), (FailureKind.UNSCHEDULABLE, None), (LOST, None)]
    assert after(attempts(ends), budget(2)) == Restart(
        wait_seconds=5.0, reason="no progress, disruption 2 of 2 allowed"
    )


def test_attempts_without_a_slice_are_given_up_after_the_time_that_a_job_waits() -> None:
    first, last = attempts([(FailureKind.NO_CAPACITY, None)] * 2)
    assert isinstance(after([first, replace(last, started=1.0, ended=99.0)], budget()), Restart)
    assert after([first, replace(last, started=1.0, ended=100.0)], budget()) == GiveUp(
        reason="no slice in 100 s, provision_timeout is 100 s"
    )
    (lost,) = attempts([(LOST, 7)])
    assert isinstance(after([first, lost, replace(last, started=99.0, ended=101.0)], budget()), Restart), (
        "had one since"
    )


def test_a_place_that_lacks_a_host_is_left_at_once_and_only_once() -> None:
    first, second = attempts([(FailureKind.UNSCHEDULABLE, None)] * 2)
    found = replace(first, places=("pool-a",))
    assert after([found], budget()) == Restart(wait_seconds=0.0, reason="another place than pool-a is tried")
    again = after([found, replace(second, places=("pool-a",))], budget())
    assert isinstance(again, Restart) and again.wait_seconds == 10.0
