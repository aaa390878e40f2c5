"""How does a command end, for scripts? One number per kind of end, the same for all commands."""

from __future__ import annotations

from enum import IntEnum

from prefect_tpu.infra.errors import FailureKind, JobFailed, NoSuchJob, PlatformError, PrefectTpuError, UsageError


class ExitStatus(IntEnum):
    """Exit statuses of `prefect-tpu`; those of a host's runner are `contract.ExitCode`."""

    SUCCEEDED = 0  # done; of a job: it has its result
    FAILED = 1  # the job failed
    WRONG_CALL = 2  # the caller can mend it: an option, a name, a file
    PLATFORM = 3  # storage or the machine refused
    NO_SUCH_JOB = 4  # no job has that name
    STOPPED = 5  # the job was stopped
    TIMED_OUT = 124  # `--timeout` is over and the job goes on; the number is timeout(1)'s
    INTERRUPTED = 130  # Ctrl-C: 128 + SIGINT
    TERMINATED = 143  # told to end: 128 + SIGTERM


PAGE = (
    "Exit status: 0 done or succeeded, 1 the job failed, 2 the call was wrong, 3 the platform refused, 4 no such job,"
    " 5 the job was stopped, 124 `--timeout` is over, 130 interrupted, 143 terminated."
)
_OF_ENDS = {"succeeded": ExitStatus.SUCCEEDED, "failed": ExitStatus.FAILED, "stopped": ExitStatus.STOPPED}


class TimedOut(PrefectTpuError):
    """What `--timeout` allowed is over; the job goes on."""


def of_end(state: str) -> ExitStatus:
    """Of a job that ended as `succeeded`, `failed` or `stopped`."""
    return _OF_ENDS[state]


def of_error(exc: PrefectTpuError) -> ExitStatus:
    """Of a command that ended by an error of ours."""
    if isinstance(exc, JobFailed) and exc.failure.kind is FailureKind.STOPPED:
        return ExitStatus.STOPPED
    for kind, status in _OF_ERRORS:
        if isinstance(exc, kind):
            return status
    return ExitStatus.FAILED


_OF_ERRORS = (  # the narrower first
    (NoSuchJob, ExitStatus.NO_SUCH_JOB),
    (UsageError, ExitStatus.WRONG_CALL),
    (PlatformError, ExitStatus.PLATFORM),
    (TimedOut, ExitStatus.TIMED_OUT),
)
