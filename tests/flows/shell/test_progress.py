"""Where nobody watches, there is a line for each change, for a step now and then, and for the last one."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from prefect_tpu.flows.shell.progress import PlainDisplay
from prefect_tpu.infra.contract import Progress
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import HostObservation, HostPhase, JobState, Observation

ENDED = AttemptSummary(number=1, accelerator="cpu", outcome="succeeded", started=0.0, ended=1.0, failure=None)
NEWS = News(job="digits", state=JobState.RUNNING, attempt=1)


def seen(step: int) -> News:
    host = HostObservation(host=0, phase=HostPhase.RUNNING, progress=Progress(step=step))
    return replace(NEWS, observation=Observation(attempt=1, hosts=(host,)))


def test_the_last_step_is_told_once_before_the_end() -> None:
    out = StringIO()
    display = PlainDisplay(Console(file=out, width=200), "digits")
    for news in (*map(seen, (0, 1, 58, 59, 59)), replace(NEWS, text="ended with its result", ended=ENDED)):
        display.heard(news)
    assert out.getvalue().splitlines() == [
        "digits attempt 1 · step 0, nothing saved yet",
        "digits attempt 1 · step 59, nothing saved yet",
        "digits attempt 1 · ended with its result",
    ]
