"""How the launcher's news reach the log of a task run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect import get_run_logger

from prefect_tpu.infra.contract import Progress
from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.infra.launcher.news import News

LONGEST_SILENCE_SECONDS = 5.0
Log = logging.Logger | logging.LoggerAdapter[Any]


@contextmanager
def logged(driving: Driving) -> Iterator[Log]:
    """Let the driving's news go to this task run's log while the block runs."""
    log, before = get_run_logger(), driving.listen
    driving.listen = Reporter(log)
    try:
        yield log
    finally:
        driving.listen = before


class Reporter:
    """A listener: every text at once, the steps every few seconds."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = 0.0
        self._step: int | None = None

    def __call__(self, news: News) -> None:
        if news.text:
            self._log.info("attempt %d: %s", news.attempt, news.text) if news.attempt else self._log.info(news.text)
        if news.observation is not None:
            self._tell_step(news)

    def _tell_step(self, news: News) -> None:
        assert news.observation is not None
        progress = news.observation.progress
        if progress.step is None or progress.step == self._step or time.monotonic() < self._next:
            return
        self._step, self._next = progress.step, time.monotonic() + LONGEST_SILENCE_SECONDS
        self._log.info("%s", step_line(progress))


def step_line(progress: Progress, total: int | None = None) -> str:
    """How far the program is, its metrics, and what is saved, in one line."""
    of = "" if total is None else f" of {total}"
    metrics = "".join(f", {name} {value:.4g}" for name, value in progress.metrics.items())
    saved = "none" if progress.saved_step is None else f"step {progress.saved_step}"
    return f"step {progress.step}{of}{metrics} (saved: {saved})"
