"""What a run is called while its job's news come in; the log and the events are servers' matter."""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import uuid4

import pytest

from prefect_tpu.flows.work_pool.voice import LEFT, Voice
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.wording import end_in_words
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation, WaitFor
from prefect_tpu.tasks.slice_events import SliceEvents

WAITS = News(job="digits", state=JobState.QUEUED, attempt=1, text="waiting: no capacity", waits_for=WaitFor.SLICE)
SENT = News(job="digits", state=JobState.STARTING, attempt=1, text="v6e-8: 2 hosts, from the beginning")


def seen(phase: HostPhase) -> News:
    hosts = (HostObservation(host=0, phase=phase), HostObservation(host=1, phase=HostPhase.PENDING))
    return News(
        job="digits", state=JobState.STARTING, attempt=1, observation=Observation(attempt=1, hosts=hosts)
    )  # fmt: skip


PENDING, BEGUN = seen(HostPhase.PENDING), seen(HostPhase.RUNNING)


@pytest.mark.parametrize(
    ("heard", "names"),
    [
        ([WAITS, SENT, PENDING, BEGUN], ["Provisioning", "Starting", "Starting"]),
        ([BEGUN], ["Starting"]),  # of a job whose driver is new
        ([BEGUN, WAITS, SENT], ["Starting"]),  # hosts that come later say nothing of the flow
        ([BEGUN, PENDING, WAITS], ["Starting", "Provisioning"]),
        ([BEGUN, BEGUN], ["Starting"]),
    ],
)
def test_a_run_is_called_what_its_leader_waits_for(heard: list[News], names: list[str]) -> None:
    called: list[str] = []
    events = SliceEvents("digits", "/jobs/digits", [], emit=lambda **_: None)

    def changed() -> None:
        assert voice.wanted is not None
        called.append(voice.wanted.name)

    voice = Voice(events, logging.getLogger(str(uuid4())), has_turn=lambda: True, changed=changed, failed=lambda: None)
    for news in heard:
        voice(news)
    assert called == names


def test_what_is_due_comes_nearer_and_a_name_of_the_old_attempt_is_not_wanted_any_more() -> None:
    told: list[None] = []
    events = SliceEvents("digits", "/jobs/digits", [], emit=lambda **_: None)
    voice = Voice(
        events, logging.getLogger(str(uuid4())), has_turn=lambda: True, changed=lambda: None,
        failed=lambda: told.append(None),
    )  # fmt: skip
    voice(BEGUN)
    assert voice.wanted is not None and voice.due is None
    cause = failure(FailureKind.PREEMPTED, "Host 1 was told to leave.")
    due = HandedBack(failure=cause, seconds=7.0, attempt=1, reason="no progress")
    voice(News(job="digits", state=JobState.RUNNING, attempt=1, due=due))
    first = voice.due
    assert told == [None] and voice.wanted is None and first is not None and first.attempt == 1
    second = voice.due
    assert second is not None and 0.0 < second.seconds < first.seconds < 7.0


def test_a_process_that_ended_by_itself_is_not_called_a_success(caplog: pytest.LogCaptureFixture) -> None:
    """The flow in it may have failed."""
    events = SliceEvents("digits", "/jobs/digits", [], emit=lambda **_: None)
    log = logging.getLogger(str(uuid4()))
    voice = Voice(events, log, has_turn=lambda: True, changed=lambda: None, failed=lambda: None)
    whole = AttemptSummary(number=1, accelerator="cpu", started=0.0, ended=1.0, outcome="succeeded", failure=None)
    lost = replace(whole, outcome="host_lost", failure=failure(FailureKind.HOST_LOST, "Host 0 is gone."))
    with caplog.at_level(logging.INFO):
        voice(News(job="digits", state=JobState.RUNNING, attempt=1, text=end_in_words(lost.failure), ended=lost))
        voice(News(job="digits", state=JobState.RUNNING, attempt=2, text=end_in_words(None), ended=whole))
        voice(News(job="digits", state=JobState.SUCCEEDED, attempt=2, text="succeeded"))
    assert caplog.messages == ["attempt 1: host_lost: Host 0 is gone.", f"attempt 2: {LEFT}"]
