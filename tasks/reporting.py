"""How the launcher's news reach the log of a task run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect import get_run_logger

from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.wording import progress_in_words

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
        self._log.info("%s", progress_in_words(progress))
