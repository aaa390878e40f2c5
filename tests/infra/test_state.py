"""The table of moves is total, and an observation sums up what its hosts say."""

from __future__ import annotations

from itertools import product

import pytest

from prefect_tpu.infra.contract import HostRecord, Progress
from prefect_tpu.infra.state import (
    FINAL,
    HostObservation,
    HostPhase,
    ImpossibleMove,
    JobEvent,
    JobState,
    Observation,
    move,
)

DONE = HostRecord(attempt=1, host=0, exit_code=0)
RAISED = HostRecord(attempt=1, host=0, exit_code=80)


def after(state: JobState, event: JobEvent) -> JobState | None:
    """None where the table says it cannot be."""
    try:
        return move(state, event)
    except ImpossibleMove:
        return None


MOVES = {(state, event): after(state, event) for state, event in product(JobState, JobEvent)}


def reachable(start: JobState, without: frozenset[JobEvent] = frozenset()) -> set[JobState]:
    found, todo = {start}, [start]
    while todo:
        state = todo.pop()
        onward = {to for (came, event), to in MOVES.items() if came is state and to and event not in without}
        todo += onward - found
        found |= onward
    return found


@pytest.mark.parametrize(("state", "event"), MOVES)
def test_every_pair_is_a_move_or_loud(state: JobState, event: JobEvent) -> None:
    if MOVES[state, event] is None:
        with pytest.raises(ImpossibleMove, match=f"{event} cannot happen to a job that is {state}"):
            move(state, event)
    else:
        assert move(state, event) in JobState


def test_every_state_can_be_reached_and_every_job_can_end() -> None:
    assert reachable(JobState.QUEUED) == set(JobState)
    for state in JobState:
        assert reachable(state) & FINAL


def test_a_succeeded_job_stays_so_and_others_go_on_only_when_run_again() -> None:
    assert reachable(JobState.SUCCEEDED) == {JobState.SUCCEEDED}
    for state in (JobState.FAILED, JobState.STOPPED):
        assert reachable(state, without=frozenset({JobEvent.CONTINUED})) == {state}
        assert move(state, JobEvent.CONTINUED) is JobState.QUEUED
    assert {state for state in JobState if state.is_final} == FINAL


def test_a_stop_can_be_asked_of_every_job_that_has_not_ended() -> None:
    for state in set(JobState) - FINAL:
        assert move(state, JobEvent.STOP_ASKED) is JobState.STOPPING
        assert move(state, JobEvent.STOPPED) is JobState.STOPPED


def test_each_end_leads_to_the_state_of_its_name() -> None:
    for event in (JobEvent.SUCCEEDED, JobEvent.FAILED, JobEvent.STOPPED):
        assert {to for (_, e), to in MOVES.items() if e is event and to} == {JobState(event.value)}


def test_a_job_that_is_stopping_never_runs_again_but_through_its_end() -> None:
    until_the_end = frozenset({JobEvent.RETRY_DUE, JobEvent.CONTINUED})
    assert not reachable(JobState.STOPPING, without=until_the_end) & {JobState.RUNNING, JobState.QUEUED}


@pytest.mark.parametrize(
    ("phase", "record", "has_failed"),
    [
        (HostPhase.PENDING, None, False),
        (HostPhase.RUNNING, None, False),
        (HostPhase.ENDED, DONE, False),
        (HostPhase.ENDED, RAISED, True),
        (HostPhase.ENDED, None, True),
    ],
)
def test_a_host_has_failed_without_a_record_or_with_a_code(
    phase: HostPhase, record: HostRecord | None, has_failed: bool
) -> None:
    host = HostObservation(host=0, phase=phase, record=record)
    assert host.has_failed is has_failed
    assert host.has_ended is (phase is HostPhase.ENDED)


def test_an_observation_sums_up_its_hosts() -> None:
    leader = HostObservation(
        host=0, phase=HostPhase.ENDED, joined=True, record=DONE,
        progress=Progress(step=8, first_step=5, metrics={"loss": 1.0}),
    )  # fmt: skip
    other = HostObservation(
        host=1, phase=HostPhase.RUNNING, progress=Progress(step=9, first_step=4, saved_step=7, metrics={"loss": 2.0})
    )
    silent = HostObservation(host=2, phase=HostPhase.PENDING)
    seen = Observation(attempt=1, hosts=(leader, other, silent))
    assert seen.progress == Progress(step=9, first_step=4, saved_step=7, metrics={"loss": 1.0})
    assert (seen.has_ended, seen.has_failure, seen.has_joined, seen.leader) == (False, False, False, leader)
    assert Observation(attempt=1, hosts=(silent,)).progress == Progress()
