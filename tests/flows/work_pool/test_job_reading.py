"""What of a job's folder decides what becomes of its run."""

from __future__ import annotations

from pathlib import Path

from prefect_tpu.flows.work_pool.facts import JobFacts, JobPhase
from prefect_tpu.flows.work_pool.job_reading import JobReader
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import LocalStorage


def lost(number: int, kind: FailureKind = FailureKind.PREEMPTED) -> AttemptSummary:
    cause: Failure = failure(kind, "It went.")
    return AttemptSummary(number=number, accelerator="v6e-8", started=1.0, ended=2.0, outcome=kind, failure=cause)


PROGRAM = Program(kind="flow", target="prefect", arguments=("flow-run", "execute"))
JOB = SliceJob(name="digits", program=PROGRAM, accelerators=("v6e-8",))
PLAN = HostPlan(
    job="digits", attempt=1, accelerator="v6e-8", output="/out/digits", hosts=1, devices_per_host=8, platform="cpu",
    coordinator="127.0.0.1:20123", addresses=("127.0.0.1",), program=PROGRAM, checkpoint_every=600.0, grace=30.0,
    orphan_after=60.0, join_timeout=120.0, python="python3",
)  # fmt: skip


def test_a_job_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "digits")
    reader = JobReader(storage.url)
    assert reader.read().facts == JobFacts(phase=JobPhase.UNKNOWN), "of a machine's folder: it may be on another one"
    history.enter(storage, JOB)
    assert reader.read().facts == JobFacts(phase=JobPhase.OPEN) and reader.read().job == JOB
    storage.put(layout.plan(1), PLAN.to_json())
    assert reader.read().facts == JobFacts(phase=JobPhase.OPEN, has_live=True)
    history.write_outcome(storage, lost(1))
    due = reader.read().facts.due
    assert due is not None and (due.attempt, due.failure.kind) == (1, FailureKind.PREEMPTED)
    history.ask_to_stop(storage, "no more")
    assert reader.read().facts == JobFacts(phase=JobPhase.OPEN, is_stop_asked=True, ended=1)
    cause = failure(FailureKind.STOPPED, "The job was stopped.")
    result = JobResult(job="digits", state="stopped", attempts=(lost(1),), output="", value=None, failure=cause)
    history.write_result(storage, result)
    assert reader.read().facts == JobFacts(phase=JobPhase.OVER, end=JobState.STOPPED, failure=cause, ended=1)


def test_nothing_is_due_for_a_run_after_an_attempt_that_had_no_slice(tmp_path: Path) -> None:
    """The launcher goes on to the next offer by itself."""
    storage = LocalStorage(tmp_path / "digits")
    history.enter(storage, JOB)
    storage.put(layout.plan(1), PLAN.to_json())
    history.write_outcome(storage, lost(1, FailureKind.NO_CAPACITY))
    assert JobReader(storage.url).read().facts == JobFacts(phase=JobPhase.OPEN, ended=1)
