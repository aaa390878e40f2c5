"""How did a run of a pool end, for those who listen to events? Its own word counts, where it has one.

A job that runs a flow ends well whatever becomes of the flow.
"""

from __future__ import annotations

import datetime
from typing import Any

from prefect.client.schemas.objects import FlowRun, State, StateType

from prefect_tpu.flows.work_pool.facts import FINAL, JobFacts, JobPhase
from prefect_tpu.flows.work_pool.words import of_flow
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.tasks.slice_events import Event, Name, without_result

# A server that has heard an event forgets that after half an hour, and its automations would act on it again: what
# ended long ago, and is only found again, is no news.
NEWS = datetime.timedelta(minutes=10)


def end_of(run: FlowRun | None, job: JobFacts, now: datetime.datetime) -> Event | None:
    """The same from each worker that sees the run in this state; None where it has no end, or had it long ago."""
    if run is None or run.state is None or run.state.type not in FINAL or job.phase is not JobPhase.OVER:
        return None
    if now - (run.end_time or run.state.timestamp) > NEWS:
        return None
    if run.state.type is StateType.COMPLETED:
        return Event(attempt=job.ended, name=Name.FINISHED, payload={})
    return without_result(_cause(run.state, job), str(run.state_id), attempt=job.ended)


def _cause(state: State[Any], job: JobFacts) -> Failure:
    if state.type is StateType.CANCELLED:
        return failure(FailureKind.STOPPED, state.message or "The run was cancelled.")
    if state.type is StateType.CRASHED and job.failure is not None:
        return job.failure
    return of_flow(state.message or f"The flow ended as {state.name}.")
