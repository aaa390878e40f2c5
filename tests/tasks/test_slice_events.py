"""Which events the news and the end of a job are, each with one id from whoever sends it."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation, WaitFor, Waiting
from prefect_tpu.tasks.slice_events import MOST_SAID, Event, Name, SliceEvents, end_of, events_of, without_result

FOLDER = "gs://b/jobs/digits"


def news(state: JobState, attempt: int = 1, text: str | None = None, **more: object) -> News:
    return News(job="digits", state=state, attempt=attempt, text=text, **more)  # type: ignore[arg-type]


def waits_for(what: WaitFor, state: JobState = JobState.QUEUED) -> News:
    return news(state, text=f"waiting: {what}", waits_for=what)


def seen(*phases: HostPhase, waiting: WaitFor | None = None) -> News:
    hosts = tuple(HostObservation(host=host, phase=phase) for host, phase in enumerate(phases))
    why = Waiting(reason="so", what=waiting) if waiting else None
    return news(JobState.STARTING, observation=Observation(attempt=1, hosts=hosts, waiting=why))


def attempt(kind: FailureKind | None, number: int = 1) -> AttemptSummary:
    cause = failure(kind, "It went.") if kind else None
    return AttemptSummary(
        number=number, accelerator="v6e-16", started=10.0, ended=12.5, outcome=kind or "succeeded", failure=cause
    )


def ended(kind: FailureKind | None, state: JobState = JobState.BACKING_OFF) -> News:
    return news(state, text="gone", ended=attempt(kind))


def result(cause: Failure | None, *attempts: AttemptSummary) -> JobResult:
    state = "failed" if cause else "succeeded"
    return JobResult(job="digits", state=state, attempts=attempts, output=FOLDER, value=None, failure=cause)


PENDING, RUNNING = HostPhase.PENDING, HostPhase.RUNNING


@pytest.mark.parametrize(
    ("heard", "names"),
    [
        (news(JobState.QUEUED, attempt=0, text="driven by another"), []),
        (waits_for(WaitFor.TURN), ["queued"]),
        (waits_for(WaitFor.QUOTA), ["queued"]),
        (waits_for(WaitFor.SLICE, JobState.STARTING), ["queued"]),
        (waits_for(WaitFor.IMAGE, JobState.STARTING), []),
        (waits_for(WaitFor.START, JobState.STARTING), []),
        (news(JobState.STARTING, text="v6e-16: 4 hosts"), []),
        (seen(PENDING, PENDING), []),
        (seen(PENDING, PENDING, waiting=WaitFor.SLICE), []),
        (seen(PENDING, PENDING, waiting=WaitFor.IMAGE), ["provisioned"]),
        (seen(RUNNING, PENDING), ["provisioned"]),
        (seen(RUNNING, RUNNING), ["provisioned", "started"]),
        (ended(FailureKind.PREEMPTED), ["preempted", "restarted"]),
        (ended(FailureKind.MAINTENANCE), ["preempted", "restarted"]),
        (ended(FailureKind.HOST_LOST), ["lost", "restarted"]),
        (ended(FailureKind.STALLED), ["stalled", "restarted"]),
        (ended(FailureKind.PROGRAM_ERROR), ["restarted"]),
        (ended(FailureKind.NO_CAPACITY), ["restarted"]),
        (ended(FailureKind.STALLED, JobState.RUNNING), ["stalled"]),  # the last one that was allowed
        (ended(None, JobState.RUNNING), []),  # of the job's end its result tells
    ],
)
def test_what_the_news_of_a_job_are_as_events(heard: News, names: list[str]) -> None:
    assert [event.name for event in events_of(heard)] == names


def test_a_good_end_is_the_last_attempt_s() -> None:
    end = end_of(result(None, attempt(FailureKind.PREEMPTED), attempt(None, 2)), "run 1")
    assert (end.name, end.attempt, end.end) == (Name.FINISHED, 2, "")
    assert end.payload["accelerator"] == "v6e-16" and "kind" not in end.payload


def test_a_bad_end_says_why_and_what_to_do() -> None:
    cause = failure(FailureKind.OUT_OF_MEMORY, "Host 1 has none left.", host=1)
    end = end_of(result(cause, attempt(FailureKind.OUT_OF_MEMORY)), "run 1")
    assert (end.name, end.attempt, end.end) == (Name.FAILED, 1, "")
    told = {name: end.payload[name] for name in ("kind", "message", "advice", "host")}
    assert told == {"kind": "out_of_memory", "message": cause.message, "advice": cause.advice, "host": 1}


@pytest.mark.parametrize("attempts", [(), (attempt(FailureKind.PROGRAM_ERROR),)])
def test_a_bad_end_that_is_no_attempt_s_own_is_told_from_others(attempts: tuple[AttemptSummary, ...]) -> None:
    """The second: of an earlier round, since which the job never had a slice."""
    cause = failure(FailureKind.NO_QUOTA, "The limit is 0.")
    first, again = (sent([], end_of(result(cause, *attempts), end))[0] for end in ("run 1", "run 2"))
    assert first["payload"]["kind"] == "no_quota" and first["payload"]["attempt"] == 0
    assert first["id"] == sent([], end_of(result(cause, *attempts), "run 1"))[0]["id"] != again["id"]


def sent(heard: list[News], *events: Event, folder: str = FOLDER) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    sender = SliceEvents("digits", folder, [], lambda **event: found.append(event))
    for one in heard:
        sender.hear(one)
    for event in events:
        sender.send(event)
    return found


def test_each_is_sent_once_and_has_the_same_id_from_everybody() -> None:
    heard = [
        waits_for(WaitFor.TURN),
        waits_for(WaitFor.SLICE),
        seen(RUNNING, RUNNING),
        seen(RUNNING, RUNNING),
        ended(FailureKind.PREEMPTED),
    ]
    mine, others = sent(heard), sent(heard[1:])
    assert [event["event"] for event in mine] == [
        f"prefect-tpu.slice.{name}" for name in ("queued", "provisioned", "started", "preempted", "restarted")
    ]
    ids = [event["id"] for event in mine]
    assert ids == [event["id"] for event in others] and len(set(ids)) == 5
    assert not {*ids} & {event["id"] for event in sent(heard, folder="gs://b/jobs/other")}


def test_a_wait_says_for_what_and_a_slice_says_of_what() -> None:
    where = news(JobState.STARTING, text="v6e-16: 4 hosts of 4 devices, from step 40")
    queued, provisioned = sent([waits_for(WaitFor.QUOTA), where, seen(RUNNING, PENDING)])
    assert (queued["payload"]["reason"], queued["payload"]["waits_for"]) == ("waiting: quota", "quota")
    assert provisioned["payload"]["said"] == where.text


def test_a_loss_tells_why() -> None:
    preempted = sent([ended(FailureKind.PREEMPTED)])[0]
    assert preempted["resource"]["prefect.resource.id"] == "prefect-tpu.slice.digits-1"
    assert preempted["resource"]["prefect-tpu.kind"] == "preempted"
    told = {name: preempted["payload"][name] for name in ("job", "attempt", "folder", "kind", "message", "seconds")}
    assert told == {
        "job": "digits", "attempt": 1, "folder": FOLDER, "kind": "preempted", "message": "It went.", "seconds": 2.5,
    }  # fmt: skip


def test_a_long_message_is_cut() -> None:
    long = sent([], without_result(failure(FailureKind.PROGRAM_ERROR, "x" * 100_000), "run 1"))[0]
    assert len(long["payload"]["message"]) == MOST_SAID and long["payload"]["message"].endswith("…")


def test_what_cannot_be_sent_hurts_nobody() -> None:
    def refuse(**event: object) -> None:
        raise OSError("no server")

    SliceEvents("digits", FOLDER, [], refuse).hear(seen(RUNNING, RUNNING))
