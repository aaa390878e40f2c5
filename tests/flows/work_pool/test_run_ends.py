"""What is told of the end of a pool's run: the flow's own word, for its job ends well whatever the flow does."""

from __future__ import annotations

import datetime
from typing import Any
from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State, StateType

from prefect_tpu.flows.work_pool.facts import JobFacts, JobPhase
from prefect_tpu.flows.work_pool.run_ends import NEWS, end_of
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import JobState

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
LOST = failure(FailureKind.NO_QUOTA, "The limit is 0.")


def run(type: StateType, message: str = "", ago: datetime.timedelta = datetime.timedelta()) -> FlowRun:
    state = State[Any](type=type, message=message)
    return FlowRun(flow_id=uuid4(), state=state, state_id=uuid4(), end_time=NOW - ago)


def over(**changes: Any) -> JobFacts:
    return JobFacts(**{"phase": JobPhase.OVER, "ended": 2, "end": JobState.SUCCEEDED, **changes})


@pytest.mark.parametrize(
    ("type", "job", "name", "kind"),
    [
        (StateType.COMPLETED, over(), "finished", None),
        (StateType.COMPLETED, over(end=JobState.STOPPED), "finished", None),  # it was the flow's last word
        (StateType.FAILED, over(), "failed", "program_error"),
        (StateType.CRASHED, over(end=JobState.FAILED, failure=LOST), "failed", "no_quota"),
        (StateType.CRASHED, over(), "failed", "program_error"),
        (StateType.CANCELLED, over(end=JobState.STOPPED), "failed", "stopped"),
    ],
)
def test_how_a_run_ends(type: StateType, job: JobFacts, name: str, kind: str | None) -> None:
    end = end_of(run(type, "ValueError: no"), job, NOW)
    assert end is not None and (end.attempt, end.name, end.payload.get("kind")) == (2, name, kind)


def test_what_the_flow_said_is_said() -> None:
    end = end_of(run(StateType.FAILED, "ValueError: no"), over(), NOW)
    assert end is not None and end.payload["message"] == "ValueError: no" and end.payload["advice"]


def test_two_bad_ends_without_an_attempt_between_them_are_two() -> None:
    first, second = (end_of(run(StateType.CRASHED), over(ended=0, failure=LOST), NOW) for _ in range(2))
    assert first is not None and second is not None and first.end != second.end


@pytest.mark.parametrize(
    ("found", "job"),
    [
        (run(StateType.RUNNING), over()),
        (run(StateType.CRASHED), JobFacts(phase=JobPhase.OPEN)),  # it comes again
        (run(StateType.COMPLETED), JobFacts(phase=JobPhase.UNKNOWN)),
        (run(StateType.COMPLETED, ago=2 * NEWS), over()),
    ],
)
def test_what_has_no_end_or_had_it_long_ago_is_no_news(found: FlowRun, job: JobFacts) -> None:
    assert end_of(found, job, NOW) is None
