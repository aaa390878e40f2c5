"""What is kept of an attempt that has ended, and of the whole job?"""

from __future__ import annotations

import time
from dataclasses import replace

from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher import checkpoints, history, values
from prefect_tpu.infra.launcher.ledger import Submitted
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.capacity import lost_places
from prefect_tpu.infra.policy.failure_kinds import with_saves
from prefect_tpu.infra.policy.slow import slow_host
from prefect_tpu.infra.state import JobState, Observation
from prefect_tpu.infra.storage import Storage


def of_attempt(
    plan: HostPlan, seen: Observation, failure: Failure | None, submitted: Submitted, saved_step: int | None
) -> AttemptSummary:
    """By the last look at its hosts and by what it left in the job's folder; it ends now.

    submitted: as its ledger has it.
    saved_step: the furthest that it sealed.
    """
    slow = slow_host({host.host: host.progress for host in seen.hosts})
    return AttemptSummary(
        number=plan.attempt,
        accelerator=plan.accelerator,
        started=submitted.started,
        ended=time.time(),
        outcome="succeeded" if failure is None else failure.kind.value,
        failure=failure,
        first_step=seen.progress.first_step,
        last_step=seen.progress.step,
        saved_step=saved_step,
        instead_of=submitted.instead_of,
        places=lost_places(seen),
        slow_host=None if slow is None else str(slow),
        cluster=plan.cluster,
        zone=plan.zone,
    )


def ended_now(storage: Storage, plan: HostPlan, summary: AttemptSummary) -> AttemptSummary:
    """The same of an attempt whose hosts were still being ended, now that they are: they may have saved meanwhile."""
    return replace(summary, ended=time.time(), saved_step=checkpoints.furthest(storage, plan))


def of_job(storage: Storage, name: str, state: JobState, failure: Failure | None) -> JobResult:
    """By what is written of its attempts; where it succeeded, with the leader's value."""
    ended = history.all_ended(storage)
    return JobResult(
        job=name,
        state=state.value,
        attempts=ended,
        output=storage.url,
        value=values.read(storage, ended[-1].number) if state is JobState.SUCCEEDED else None,
        failure=with_saves(failure, [attempt.saved_step for attempt in ended]),
    )
