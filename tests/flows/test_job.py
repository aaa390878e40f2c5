"""A job in any process's hands: what it waits for, and what not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from prefect_tpu.flows.job import Job
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import JobResult, Program, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.lease import Lease
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.storage import LocalStorage


def test_a_stop_is_over_once_somebody_runs_the_job_again(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    storage = LocalStorage(tmp_path / "digits")
    job = SliceJob(name="digits", program=Program(kind="module", target="m:f"), accelerators=("cpu",))
    history.enter(storage, job)
    assert Lease(storage, time.monotonic).take() is None  # so that nobody need be started to see to it
    stopping = threading.Thread(target=Job(name="digits", folder=storage.url).stop, daemon=True)
    stopping.start()
    wait_until(lambda: history.is_stop_asked(storage), "the wish")
    stopped = failure(FailureKind.STOPPED, "The job was asked to stop.")
    history.write_result(
        storage, JobResult(job="digits", state="stopped", attempts=(), output=storage.url, value=None, failure=stopped)
    )
    history.begin_round(storage, job)
    wait_until(lambda: not stopping.is_alive(), "the end of the stop, though the job runs again")
    assert history.read_result(storage) is None
