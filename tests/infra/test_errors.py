"""Errors say who, why and what to do, also after a journey as a pickle."""

from __future__ import annotations

import pickle

import pytest

from prefect_tpu.infra.errors import Failure, FailureKind, JobFailed, Preempted
from prefect_tpu.infra.policy.failure_kinds import failure

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


@pytest.mark.parametrize(
    ("kind", "message", "said"),
    [
        (
            FailureKind.PROGRAM_ERROR,
            "ValueError: no good",
            "failed: program_error on host 1: ValueError: no good.",
        ),
        (
            FailureKind.HOST_LOST,
            "Host 1 is gone.",
            "failed: host_lost on host 1: Host 1 is gone.",
        ),
        (FailureKind.STOPPED, "Somebody asked.", "was stopped: Somebody asked."),
    ],
)
def test_the_message_says_what_happened_where_and_what_to_do(kind: FailureKind, message: str, said: str) -> None:
    cause = Failure(kind=kind, retryable=False, message=message, advice="Mend it.", host=1)
    assert str(JobFailed("digits", cause)) == f"Job 'digits' {said} Mend it."
