"""The last line of a job says how it ended, where, and what is kept."""

from __future__ import annotations

import pytest

from prefect_tpu.flows.shell.ending import again, show_end, verdict
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.policy.failure_kinds import failure


def ended(kind: FailureKind | None, message: str = "", host: int | None = None) -> JobResult:
    cause = None if kind is None else failure(kind, message, host=host)
    state = "succeeded" if kind is None else "stopped" if kind is FailureKind.STOPPED else "failed"
    outcome = kind.value if kind else "succeeded"
    attempt = AttemptSummary(
        number=1, accelerator="v6e-16", started=0.0, ended=65.0, outcome=outcome, failure=cause, saved_step=40
    )
    return JobResult(job="digits", state=state, attempts=(attempt,), output="/out/digits", value=[1], failure=cause)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (ended(None), "digits succeeded: [1]"),
        (ended(FailureKind.STOPPED, "Asked. Step 40 is saved."), "digits stopped: Asked. Step 40 is saved."),
        (ended(FailureKind.HOST_LOST, "Gone.", host=2), "digits failed: host_lost on host 2: Gone."),
        (ended(FailureKind.NO_CAPACITY, "None."), "digits failed: no_capacity: None."),
    ],
)
def test_one_line(result: JobResult, says: str) -> None:
    assert verdict(result) == says


def test_the_whole_end_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    show_end(ended(FailureKind.HOST_LOST, "Gone.", host=2), None)
    written = capsys.readouterr()
    assert written.out == "" and "\x1b[" not in written.err
    lines = written.err.splitlines()
    assert lines[1].split() == ["1", "v6e-16", "host_lost", "2", "1m5s", "-", "40", "0", "0"]
    assert "log: /out/digits/attempts/1/hosts/2/log" in lines and lines[-1] == "output: /out/digits"


def test_a_stopped_job_is_gone_on_with_by_a_name_that_may_be_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    show_end(ended(FailureKind.STOPPED, "Asked."), None)
    said = "To go on from its newest checkpoint: run the same command with --name digits"
    assert said in capsys.readouterr().err.splitlines()
    assert again("digits", has_begun=False) == "To begin it: run the same command with --name digits"
