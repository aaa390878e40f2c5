"""Hosts that were told to leave only because another one had ended are never the cause."""

from __future__ import annotations

from prefect_tpu.infra.contract import ExitCode, HostRecord, ProgramError, StopReason
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.policy.failures import classify
from prefect_tpu.infra.state import HostObservation, HostPhase, Observation

RAISED = ProgramError(type="ValueError", message="bad batch", traceback="")


def host(number: int, *, is_consequence: bool = False, **record: object) -> HostObservation:
    ended = HostRecord(attempt=1, host=number, **record)  # type: ignore[arg-type]
    return HostObservation(host=number, phase=HostPhase.ENDED, record=ended, is_consequence=is_consequence)


def told(number: int, *, is_consequence: bool) -> HostObservation:
    how = {"exit_code": ExitCode.PREEMPTED, "stop_reason": StopReason.NOTICE.value}
    return host(number, is_consequence=is_consequence, **how)


def test_a_program_error_is_not_taken_for_the_preemption_that_followed_from_it() -> None:
    raised = host(2, exit_code=ExitCode.PROGRAM_RAISED, error=RAISED)
    seen = Observation(attempt=1, hosts=(told(0, is_consequence=True), told(1, is_consequence=True), raised))
    found = classify(seen)
    assert found is not None and (found.kind, found.host) == (FailureKind.PROGRAM_ERROR, 2)
    assert len(found.evidence) == 3


def test_a_host_that_was_killed_after_another_had_failed_is_no_lost_host() -> None:
    raised = host(1, exit_code=ExitCode.PROGRAM_RAISED, error=RAISED)
    gone = HostObservation(host=0, phase=HostPhase.ENDED, signal=9, is_consequence=True)
    found = classify(Observation(attempt=1, hosts=(gone, raised)))
    assert found is not None and (found.kind, found.host) == (FailureKind.PROGRAM_ERROR, 1)


def test_where_none_has_a_cause_of_its_own_they_were_preempted() -> None:
    seen = Observation(attempt=1, hosts=(told(0, is_consequence=True), told(1, is_consequence=True)))
    found = classify(seen)
    assert found is not None and found.kind is FailureKind.PREEMPTED
