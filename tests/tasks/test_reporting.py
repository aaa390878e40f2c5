"""Of an attempt's steps the log has one now and then, and the last one whenever that came."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from prefect_tpu.infra.contract import Progress
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation
from prefect_tpu.tasks.reporting import Reporter

ENDED = AttemptSummary(number=1, accelerator="cpu", outcome="succeeded", started=0.0, ended=1.0, failure=None)
NEWS = News(job="digits", state=JobState.RUNNING, attempt=1)


def seen(step: int) -> News:
    host = HostObservation(host=0, phase=HostPhase.RUNNING, progress=Progress(step=step))
    return replace(NEWS, observation=Observation(attempt=1, hosts=(host,)))


def test_the_last_step_is_told_before_the_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    report = Reporter(logging.getLogger("test"))
    for news in (*map(seen, (0, 1, 58, 59, 59)), replace(NEWS, text="ended with its result", ended=ENDED)):
        report(news)
    assert [record.getMessage() for record in caplog.records] == [
        "step 0, nothing saved yet", "step 59, nothing saved yet", "attempt 1: ended with its result",
    ]  # fmt: skip
