"""What becomes of a run and its job: every combination has an action, and few of them move a final run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prefect.client.schemas.objects import StateType

from prefect_tpu.flows.work_pool.decision import (
    CANCEL_SECONDS,
    FINAL_SECONDS,
    FOLDER_SECONDS,
    MOST_RESUBMISSIONS,
    OTHERS_SECONDS,
    SUBMISSION_SECONDS,
    UPLOAD_SECONDS,
    Action,
    Cancel,
    Crash,
    Drive,
    Leave,
    Requeue,
    Resume,
    Stop,
    Wait,
    decide,
)
from prefect_tpu.flows.work_pool.facts import Driver, JobFacts, JobPhase, RunFacts
from prefect_tpu.flows.work_pool.words import crashed
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import JobState

LOST = failure(FailureKind.PREEMPTED, "Host 1 was told to leave.")
BROKE = failure(FailureKind.PROGRAM_ERROR, "The program ended with 3.")
DUE = HandedBack(failure=LOST, seconds=7.0, attempt=2, reason="no progress")

ABSENT, UNKNOWN = JobFacts(phase=JobPhase.ABSENT), JobFacts(phase=JobPhase.UNKNOWN)
NEW = JobFacts(phase=JobPhase.OPEN)
LIVE = JobFacts(phase=JobPhase.OPEN, has_live=True, ended=1)
DRIVEN = replace(LIVE, driver=Driver.US)
OTHERS = replace(LIVE, driver=Driver.ANOTHER)
LOST_ONE = JobFacts(phase=JobPhase.OPEN, ended=2, due=DUE)
LOSING = replace(LOST_ONE, has_live=True, ended=1, driver=Driver.US)
STOPPING = replace(LIVE, is_stop_asked=True)
SUCCEEDED = JobFacts(phase=JobPhase.OVER, end=JobState.SUCCEEDED, ended=2)
FAILED = JobFacts(phase=JobPhase.OVER, end=JobState.FAILED, ended=2, failure=BROKE)
STOPPED = JobFacts(
    phase=JobPhase.OVER, end=JobState.STOPPED, ended=2, failure=failure(FailureKind.STOPPED, "The job was stopped.")
)


def run(type: StateType | None, **more: object) -> RunFacts:
    return RunFacts(type=type, name=str(type and type.value.title()), **more)  # type: ignore[arg-type]


def late(type: StateType, **more: object) -> RunFacts:
    """Seen in this state for longer than anything is waited for."""
    return run(type, seconds=UPLOAD_SECONDS, **more)


S = StateType
AGAIN = Requeue(seconds=5.0, message="Submitted again: nothing came of submission 1.")
SUBMITTED = replace(run(S.PENDING), name="Submitted")
AD_HOC = {"has_deployment": False}


@pytest.mark.parametrize(
    ("seen", "job", "action"),
    [
        # No job.
        (run(S.PENDING), ABSENT, Wait(seconds=SUBMISSION_SECONDS)),
        (late(S.PENDING), ABSENT, Requeue),
        (run(S.PENDING, seconds=SUBMISSION_SECONDS, **AD_HOC), ABSENT, Wait),
        (late(S.PENDING, **AD_HOC), ABSENT, Crash),
        (late(S.PENDING, resubmitted=MOST_RESUBMISSIONS), ABSENT, Crash),
        (run(S.RUNNING), ABSENT, Wait(seconds=FOLDER_SECONDS)),
        (late(S.RUNNING), ABSENT, Crash),
        (run(S.CANCELLING), ABSENT, Wait(seconds=CANCEL_SECONDS)),
        (late(S.CANCELLING), ABSENT, Cancel),
        (late(S.PAUSED), ABSENT, Leave),
        (late(S.SCHEDULED), ABSENT, Leave),
        (run(S.CRASHED, is_unsubmitted=True), ABSENT, AGAIN),
        (run(S.CRASHED, is_unsubmitted=True, resubmitted=MOST_RESUBMISSIONS), ABSENT, Leave),
        (run(S.CRASHED, is_unsubmitted=True, **AD_HOC), ABSENT, Leave),
        (late(S.CRASHED), ABSENT, Leave),
        # One that cannot be seen from here.
        (replace(late(S.PENDING), name="Provisioning"), UNKNOWN, Leave),
        (run(S.PENDING), UNKNOWN, Wait),
        (late(S.PENDING), UNKNOWN, Requeue),
        (run(S.CRASHED, is_unsubmitted=True), UNKNOWN, AGAIN),
        (late(S.RUNNING), UNKNOWN, Leave),
        (late(S.CANCELLING), UNKNOWN, Leave),
        # It waits for its slice, runs, or was lost.
        (run(S.PENDING), NEW, Drive(after=0, names=True)),
        (SUBMITTED, NEW, Drive(after=0)),
        (SUBMITTED, DRIVEN, Leave),
        (SUBMITTED, OTHERS, Leave),
        (SUBMITTED, LOST_ONE, Drive(after=2)),
        (run(S.PENDING), LOST_ONE, Drive(after=2, names=True)),
        (run(S.RUNNING), LIVE, Drive(after=1)),
        (run(S.RUNNING), DRIVEN, Leave),
        (run(S.RUNNING), NEW, Drive(after=0)),
        (run(S.RUNNING), LOST_ONE, Crash(message=crashed(LOST), of=2)),
        (run(S.PAUSED), LOST_ONE, Crash(message=crashed(LOST), of=2)),
        (run(S.RUNNING), replace(LOST_ONE, driver=Driver.ANOTHER), Leave),
        # It is known that it is lost, and what is left of it is still being ended by this process.
        (run(S.RUNNING), LOSING, Crash(message=crashed(LOST), of=2)),
        (run(S.CRASHED, message=crashed(LOST)), LOSING, Requeue),
        (run(S.SCHEDULED), LOSING, Leave),
        (run(S.PENDING), LOSING, Leave),
        (run(S.RUNNING, **AD_HOC), LOSING, Requeue),
        (run(S.SCHEDULED, **AD_HOC), LOSING, Leave),
        (run(S.CANCELLING), LOSING, Wait),
        (run(S.RUNNING, **AD_HOC), LOST_ONE, Requeue),
        (run(S.PAUSED), LIVE, Drive(after=1)),
        # The second half of a crash that is none for good.
        (run(S.CRASHED, message=crashed(LOST)), LOST_ONE, Requeue),
        (run(S.CRASHED, message=crashed(LOST)), replace(NEW, driver=Driver.US), Leave),  # it has just got the turn
        (late(S.CRASHED, message=crashed(LOST)), OTHERS, Leave),
        (late(S.CRASHED, message=crashed(LOST)), DRIVEN, Leave),
        (run(S.CRASHED, message="by hand"), replace(NEW, driver=Driver.US), Stop(reason="its flow run has ended")),
        (run(S.CRASHED, message="by hand"), LOST_ONE, Stop(reason="its flow run has ended")),
        (run(S.CRASHED, message=crashed(LOST), **AD_HOC), LOST_ONE, Stop(reason="its flow run has ended")),
        (run(S.SCHEDULED), LOST_ONE, Leave),
        (run(S.SCHEDULED, is_withheld=True), LOST_ONE, Crash(message=crashed(LOST), of=2)),
        (run(S.SCHEDULED, is_withheld=True), DRIVEN, Leave),
        (run(S.SCHEDULED, due_in=3.0, **AD_HOC), LOST_ONE, Wait(seconds=3.0)),
        (run(S.SCHEDULED, **AD_HOC), LOST_ONE, Resume()),
        (run(S.SCHEDULED), NEW, Leave),
        (run(S.SCHEDULED), LIVE, Drive(after=1)),
        (run(S.CRASHED, is_unsubmitted=True), NEW, Requeue),
        # Somebody does not want it any more.
        (run(S.CANCELLING), NEW, Stop(reason="its flow run is being cancelled")),
        (run(S.CANCELLING), LOST_ONE, Stop(reason="its flow run is being cancelled")),
        (run(S.CANCELLING), LIVE, Drive(after=1)),
        (run(S.CANCELLING), DRIVEN, Wait(seconds=CANCEL_SECONDS)),
        (late(S.CANCELLING), DRIVEN, Stop(reason="its flow run is being cancelled")),
        (run(S.CANCELLED), DRIVEN, Stop(reason="its flow run was cancelled")),
        (run(S.CANCELLED), NEW, Stop(reason="its flow run was cancelled")),
        (run(None), OTHERS, Stop(reason="its flow run was deleted")),
        (run(None), STOPPING, Drive(after=1)),
        (run(None), ABSENT, Leave),
        (run(S.PENDING), STOPPING, Drive(after=1)),
        (run(S.RUNNING), STOPPING, Drive(after=1)),
        (run(S.RUNNING), replace(STOPPING, driver=Driver.US), Leave),
        # The run has its end, and the job has none yet.
        (run(S.COMPLETED), LIVE, Drive(after=1)),
        (run(S.COMPLETED), DRIVEN, Wait(seconds=FINAL_SECONDS)),
        # One that was just adopted may have left by itself before.
        (late(S.FAILED), DRIVEN, Wait(seconds=FINAL_SECONDS)),
        (late(S.FAILED), replace(DRIVEN, driven_for=FINAL_SECONDS - 1), Wait(seconds=1.0)),
        (late(S.FAILED), replace(DRIVEN, driven_for=FINAL_SECONDS), Stop(reason="its flow run has ended")),
        (run(S.FAILED), OTHERS, Wait(seconds=OTHERS_SECONDS)),
        (late(S.FAILED), OTHERS, Stop(reason="its flow run has ended")),
        (run(S.COMPLETED), LOST_ONE, Stop(reason="its flow run has ended")),
        # The job has its end.
        (SUBMITTED, FAILED, Crash(message=crashed(BROKE), of=2)),
        (run(S.RUNNING), FAILED, Crash(message=crashed(BROKE), of=2)),
        (run(S.PAUSED), FAILED, Crash(message=crashed(BROKE), of=2)),
        (run(S.RUNNING), SUCCEEDED, Crash),
        (run(S.PAUSED), SUCCEEDED, Leave),
        (run(S.RUNNING), STOPPED, Cancel(message="The job was stopped.")),
        (run(S.CANCELLING), SUCCEEDED, Cancel),
        (run(S.COMPLETED), SUCCEEDED, Leave),
        (run(S.SCHEDULED), FAILED, Leave),
        (run(None), FAILED, Leave),
        # Handed out again after that end: whoever submits it begins a new round.
        (run(S.PENDING), FAILED, Wait(seconds=SUBMISSION_SECONDS)),
        (replace(run(S.PENDING), name="Submitting"), SUCCEEDED, Wait(seconds=SUBMISSION_SECONDS)),
        (late(S.PENDING), FAILED, Requeue),
        (run(S.CRASHED, is_unsubmitted=True), FAILED, Requeue),
    ],
)  # fmt: skip
def test_what_is_due(seen: RunFacts, job: JobFacts, action: Action | type[Action]) -> None:
    found = decide(seen, job)
    assert type(found) is action if isinstance(action, type) else found == action


def test_a_submission_is_repeated_later_each_time_and_not_for_ever() -> None:
    found = [decide(run(S.CRASHED, is_unsubmitted=True, resubmitted=times), ABSENT) for times in range(12)]
    assert [action.seconds for action in found if isinstance(action, Requeue)] == [5.0, 10.0, 20.0, *[30.0] * 7]


runs = st.builds(
    RunFacts,
    type=st.none() | st.sampled_from(StateType),
    name=st.sampled_from(["Pending", "Submitting", "Submitted", "Queued", "Running", "AwaitingRetry", "Crashed"]),
    message=st.sampled_from(["", "by hand", crashed(LOST)]),
    seconds=st.sampled_from([0.0, UPLOAD_SECONDS]),
    due_in=st.sampled_from([0.0, 5.0]),
    has_deployment=st.booleans(),
    is_withheld=st.booleans(),
    is_unsubmitted=st.just(False),
    resubmitted=st.integers(0, 6),
)
jobs = st.one_of(
    st.sampled_from([ABSENT, UNKNOWN, SUCCEEDED, FAILED, STOPPED]),
    st.builds(
        JobFacts,
        phase=st.just(JobPhase.OPEN),
        driver=st.sampled_from(Driver),
        driven_for=st.sampled_from([0.0, 10.0, 60.0]),  # which counts only where this process drives it
        has_live=st.booleans(),
        is_stop_asked=st.booleans(),
        ended=st.integers(0, 3),
        due=st.none() | st.just(DUE),
    ),
)


@given(runs, jobs)
def test_every_combination_has_an_action(seen: RunFacts, job: JobFacts) -> None:
    assert isinstance(decide(seen, job), Action)


@given(runs, jobs)
def test_a_final_run_is_moved_only_where_its_crash_was_ours_and_its_job_goes_on(seen: RunFacts, job: JobFacts) -> None:
    action = decide(seen, job)
    if seen.is_final and isinstance(action, Crash | Cancel | Requeue | Resume):
        assert isinstance(action, Requeue)
        assert seen.type is S.CRASHED and seen.message == crashed(LOST) and job.due is DUE


@given(runs, jobs)
def test_nothing_is_begun_for_a_run_that_nobody_wants_any_more(seen: RunFacts, job: JobFacts) -> None:
    """What lives of it is driven, for somebody has to end it; what does not is stopped, and driven to that end."""
    unwanted = seen.type is None or seen.is_final or seen.type is S.CANCELLING
    if unwanted and isinstance(decide(seen, job), Drive):
        assert job.has_live or job.is_stop_asked


@given(runs, jobs)
def test_who_waits_for_time_finds_something_due_then(seen: RunFacts, job: JobFacts) -> None:
    action = decide(seen, job)
    if isinstance(action, Wait):
        then = replace(seen, seconds=seen.seconds + action.seconds, due_in=max(0.0, seen.due_in - action.seconds))
        later = replace(job, driven_for=job.driven_for + action.seconds) if job.driver is Driver.US else job
        assert not isinstance(decide(then, later), Wait | Leave)


@given(runs, jobs)
def test_what_is_driven_by_anybody_is_driven_once(seen: RunFacts, job: JobFacts) -> None:
    if job.is_driven:
        assert not isinstance(decide(seen, job), Drive)
