"""Scripts tell by a number how a command ended."""

from __future__ import annotations

import pytest

from prefect_tpu.flows.shell.exit_status import PAGE, ExitStatus, TimedOut, of_end, of_error
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import (
    Conflict,
    FailureKind,
    JobFailed,
    NoSuchJob,
    PlatformError,
    PrefectTpuError,
    UsageError,
    WrongSlice,
)
from prefect_tpu.infra.policy.failure_kinds import failure


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoSuchJob("x"), 4),
        (UsageError("x"), 2),
        (Conflict("x"), 2),
        (PlatformError("x"), 3),
        (ContractError("x"), 3),
        (TimedOut("x"), 124),
        (WrongSlice("x"), 1),
        (JobFailed("x", failure(FailureKind.HOST_LOST, "x")), 1),
        (JobFailed("x", failure(FailureKind.STOPPED, "x")), 5),
    ],
)
def test_each_error_has_its_number(error: PrefectTpuError, status: int) -> None:
    assert of_error(error) == status


def test_each_end_has_its_number() -> None:
    assert [of_end(state) for state in ("succeeded", "failed", "stopped")] == [0, 1, 5]


def test_the_help_says_them_all() -> None:
    assert [status for status in ExitStatus if f" {status.value} " not in PAGE] == []
