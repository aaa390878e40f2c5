"""A job's folder as earlier runs left it, written by the launcher's own words: nothing has to run for that."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.request import Request, prepare
from prefect_tpu.infra.storage import LocalStorage

NAME = "digits"
PROGRAM = "train.py:main"


def request(output: Path, **changes: object) -> Request:
    """The job as the shell's `run train.py:main --name digits` asks for it."""
    values = {"name": NAME, "program": PROGRAM, "accelerators": ("cpu",), "output": str(output)}
    return Request(**{**values, **changes})  # type: ignore[arg-type]


def begun(output: Path, **changes: object) -> LocalStorage:
    """A job that was asked for."""
    storage = LocalStorage(output / NAME)
    history.enter(storage, prepare(request(output, **changes)))
    return storage


def under_way(output: Path) -> LocalStorage:
    """A job whose first attempt has a plan and a host that claimed its place, by a driver that is gone."""
    storage = begun(output)
    job = history.read_job(storage)
    assert job is not None
    storage.put(layout.plan(1), _plan(job, storage).to_json())
    return storage


def ended(output: Path, state: str) -> LocalStorage:
    """A job that ended with its first attempt."""
    storage = under_way(output)
    cause = None if state == "succeeded" else failure(FailureKind.PROGRAM_ERROR, "ValueError: asked to fail", host=0)
    outcome = state if cause is None else cause.kind.value
    now = time.time()
    summary = AttemptSummary(number=1, accelerator="cpu", started=now - 1, ended=now, outcome=outcome, failure=cause)
    record = HostRecord(attempt=1, host=0, exit_code=0 if cause is None else 80, ended_after=1.0)
    storage.put(layout.record(1, 0), record.to_json())
    history.write_outcome(storage, summary)
    result = JobResult(job=NAME, state=state, attempts=(summary,), output=storage.url, value=None, failure=cause)
    history.write_result(storage, result)
    return storage


def _plan(job: SliceJob, storage: LocalStorage) -> HostPlan:
    return HostPlan(
        job=job.name,
        attempt=1,
        accelerator="cpu",
        output=storage.url,
        hosts=1,
        devices_per_host=1,
        platform="cpu",
        coordinator="127.0.0.1:1",
        addresses=("127.0.0.1",),
        program=job.program,
        checkpoint_every=job.checkpoint_every,
        grace=job.grace,
        orphan_after=job.orphan_after,
        join_timeout=job.join_timeout,
        python=sys.executable,
    )
