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
    """A listener: every text at once, the steps every few seconds and the last one."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._next = 0.0
        self._step: int | None = None
        self._newest = Progress()

    def __call__(self, news: News) -> None:
        if news.ended is not None:
            self._tell_step(now=True)
        if news.text:
            self._log.info("attempt %d: %s", news.attempt, news.text) if news.attempt else self._log.info(news.text)
        if news.observation is not None:
            self._newest = news.observation.progress
            self._tell_step()

    def _tell_step(self, now: bool = False) -> None:
        """The newest, unless one was told a moment ago; the last one always."""
        step = self._newest.step
        if step is None or step == self._step or (time.monotonic() < self._next and not now):
            return
        self._step, self._next = step, time.monotonic() + LONGEST_SILENCE_SECONDS
        self._log.info("%s", progress_in_words(self._newest))
