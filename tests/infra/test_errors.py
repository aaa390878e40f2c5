"""Errors say who, why and what to do, also after a journey as a pickle."""

from __future__ import annotations

import pickle

import pytest

from prefect_tpu.infra.errors import FailureKind, JobFailed, Preempted
from prefect_tpu.infra.policy.failures import failure

CAUSE = failure(FailureKind.PROGRAM_ERROR, "ValueError: no", host=2, evidence=["host 2: exit 80"])


@pytest.mark.parametrize("traceback", [None, "Traceback: here"])
def test_a_failed_job_survives_pickling(traceback: str | None) -> None:
    failed = pickle.loads(pickle.dumps(JobFailed("digits", CAUSE, traceback=traceback)))
    assert (failed.job, failed.failure) == ("digits", CAUSE)
    assert str(failed).startswith("Job 'digits' failed: program_error on host 2: ValueError: no")
    assert getattr(failed, "__notes__", []) == ([f"The host's traceback:\n{traceback}"] if traceback else [])


@pytest.mark.parametrize("step", [None, 7])
def test_a_preemption_survives_pickling(step: int | None) -> None:
    assert pickle.loads(pickle.dumps(Preempted(step))).step == step
