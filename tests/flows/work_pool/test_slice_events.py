"""Which events the news of a job are, each with one id from whoever sends it."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, WorkPool

from prefect_tpu.flows.work_pool.slice_events import SliceEvents, events_of, related
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.policy.failures import failure
from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation, WaitFor


def news(state: JobState, attempt: int = 1, text: str | None = None, **more: object) -> News:
    return News(job="digits", state=state, attempt=attempt, text=text, **more)  # type: ignore[arg-type]


def seen(*phases: HostPhase) -> Observation:
    hosts = tuple(HostObservation(host=host, phase=phase) for host, phase in enumerate(phases))
    return Observation(attempt=1, hosts=hosts)


def ended(kind: FailureKind | None) -> News:
    cause = failure(kind, "It went.") if kind else None
    summary = AttemptSummary(
        number=1, accelerator="v6e-16", started=10.0, ended=12.5, outcome=kind or "succeeded", failure=cause
    )
    return news(JobState.BACKING_OFF, text="gone", ended=summary)


PENDING, RUNNING = HostPhase.PENDING, HostPhase.RUNNING


@pytest.mark.parametrize(
    ("heard", "names"),
    [
        (news(JobState.STARTING, text="v6e-16: 4 hosts"), ["submitted"]),
        (news(JobState.STARTING, text="waiting: nodes", waits_for=WaitFor.SLICE), []),
        (news(JobState.QUEUED, attempt=0, text="driven by another"), []),
        (news(JobState.STARTING, observation=seen(RUNNING, PENDING)), []),
        (news(JobState.STARTING, observation=seen(RUNNING, RUNNING)), ["started"]),
        (ended(None), ["ended"]),
        (ended(FailureKind.PREEMPTED), ["preempted", "ended"]),
        (ended(FailureKind.MAINTENANCE), ["preempted", "ended"]),
        (ended(FailureKind.HOST_LOST), ["lost", "ended"]),
        (ended(FailureKind.STALLED), ["stalled", "ended"]),
        (ended(FailureKind.PROGRAM_ERROR), ["ended"]),
        (ended(FailureKind.NO_CAPACITY), ["ended"]),
    ],
)
def test_what_the_news_of_a_job_are_as_events(heard: News, names: list[str]) -> None:
    assert [event.name for event in events_of(heard)] == names


def sent(heard: list[News], folder: str = "gs://b/jobs/digits") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    events = SliceEvents("digits", folder, [], lambda **event: found.append(event))
    for one in heard:
        events.hear(one)
    return found


def test_each_is_sent_once_and_has_the_same_id_from_everybody() -> None:
    heard = [
        news(JobState.STARTING, text="sent"),
        news(JobState.STARTING, text="found running"),
        ended(FailureKind.PREEMPTED),
    ]
    mine, others = sent(heard), sent(heard[1:])
    assert [event["event"] for event in mine] == [
        f"prefect-tpu.slice.{name}" for name in ("submitted", "preempted", "ended")
    ]
    ids = [event["id"] for event in mine]
    assert ids == [event["id"] for event in others] and len(set(ids)) == 3
    assert not {*ids} & {event["id"] for event in sent(heard, "gs://b/jobs/other")}


def test_an_end_tells_why() -> None:
    preempted = sent([ended(FailureKind.PREEMPTED)])[0]
    assert preempted["resource"]["prefect.resource.id"] == "prefect-tpu.slice.digits-1"
    assert preempted["resource"]["prefect-tpu.kind"] == "preempted"
    told = {name: preempted["payload"][name] for name in ("job", "attempt", "kind", "message", "seconds")}
    assert told == {"job": "digits", "attempt": 1, "kind": "preempted", "message": "It went.", "seconds": 2.5}


def test_an_event_belongs_to_the_run_and_where_it_came_from() -> None:
    deployment, flow = uuid4(), uuid4()
    run = FlowRun(flow_id=flow, deployment_id=deployment, name="red-fox")
    pool = WorkPool(name="tpu", type="tpu-slice", id=UUID(int=7), default_queue_id=uuid4())
    assert {one["prefect.resource.id"] for one in related(run, pool)} == {
        f"prefect.flow-run.{run.id}",
        f"prefect.flow.{flow}",
        f"prefect.deployment.{deployment}",
        f"prefect.work-pool.{UUID(int=7)}",
    }
    run.deployment_id = None
    assert [one["prefect.resource.role"] for one in related(run, pool)] == ["flow-run", "flow", "work-pool"]
