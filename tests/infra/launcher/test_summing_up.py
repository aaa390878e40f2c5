"""What is kept of attempts and jobs is what their hosts, their ledger and their checkpoints say."""

from __future__ import annotations

import time
from collections.abc import Callable

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Event, Progress
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher import history, summing_up
from prefect_tpu.infra.launcher.checkpoints import furthest
from prefect_tpu.infra.launcher.ledger import Ledger, Submitted
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation
from prefect_tpu.infra.storage import LocalStorage


def test_an_attempt_and_then_its_job(storage: LocalStorage, make_plan: Callable[..., HostPlan]) -> None:
    plan = make_plan(attempt=3, accelerator="v5e-8")
    storage.put(layout.plan(3), plan.to_json())
    storage.put(layout.checkpoint_seal(3, 20), b"{}")
    Ledger(storage).write(3, Event.SUBMITTED, instead_of="v6e-16 cannot be had")
    progress = Progress(step=24, first_step=5)
    gone = HostObservation(host=0, phase=HostPhase.ENDED, progress=progress, place="node-7")
    cause = failure(FailureKind.STOPPED, "The job was asked to stop.")
    kept = summing_up.of_attempt(
        plan, Observation(attempt=3, hosts=(gone,)), cause, Ledger(storage).submitted(3), furthest(storage, plan)
    )
    assert (kept.number, kept.accelerator, kept.outcome, kept.failure) == (3, "v5e-8", "stopped", cause)
    assert (kept.first_step, kept.last_step, kept.saved_step) == (5, 24, 20)
    assert (kept.instead_of, kept.places, kept.slow_host) == ("v6e-16 cannot be had", ("node-7",), None)
    assert kept.ended is not None and kept.started <= kept.ended <= time.time()
    storage.put(layout.checkpoint_seal(3, 24), b"{}")  # a host saved while it was ended
    later = summing_up.ended_now(storage, plan, kept)
    assert (later.saved_step, later.last_step, later.ended or 0.0) >= (24, 24, kept.ended)
    history.write_outcome(storage, kept)
    end = summing_up.of_job(storage, "digits", JobState.STOPPED, cause)
    assert (end.state, end.attempts, end.value, end.output) == ("stopped", (kept,), None, storage.url)
    assert end.failure is not None and end.failure.message == "The job was asked to stop. Step 20 is saved."


def test_a_host_that_kept_the_others_waiting_is_kept_with_the_attempt(
    storage: LocalStorage, make_plan: Callable[..., HostPlan]
) -> None:
    plan = make_plan(attempt=1)
    storage.put(layout.plan(1), plan.to_json())
    said = [Progress(step=40, step_seconds=0.1, own_seconds=own) for own in (0.09, 0.001)]
    hosts = tuple(HostObservation(host=n, phase=HostPhase.ENDED, progress=each) for n, each in enumerate(said))
    kept = summing_up.of_attempt(
        plan, Observation(attempt=1, hosts=hosts), None, Submitted(started=1.0, instead_of=None), None
    )
    assert kept.slow_host is not None and kept.slow_host.startswith("host 0 is slow: ")
    assert AttemptSummary.from_json(kept.to_json()) == kept
