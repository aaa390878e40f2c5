"""What becomes of the news of a run's job? Lines of its log, events, and what the run is called while it waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from prefect_tpu.flows.work_pool.waiting_states import BEGUN, Named, has_begun, named
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import JobState
from prefect_tpu.tasks.slice_events import SliceEvents

Log = logging.Logger | logging.LoggerAdapter[Any]


LEFT = "the flow's process has ended by itself; how the run ended is said by its state"


class Voice:
    """A listener for one drive. It waits for nobody: what the server is to be told is kept until somebody asks.

    A drive that waits for its turn has nothing to say: another worker does.

    wanted: what the run is to be called while it is pending; None where nothing new is to be said.
    has_begun: the leader of the live attempt has begun.
    """

    def __init__(
        self,
        events: SliceEvents,
        log: Log,
        *,
        has_turn: Callable[[], bool],
        changed: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        self.wanted: Named | None = None
        self.has_begun = False
        self._due: HandedBack | None = None
        self._due_at = 0.0
        self._events, self._log, self._has_turn, self._changed, self._failed = events, log, has_turn, changed, failed

    @property
    def due(self) -> HandedBack | None:
        """That attempt has failed, and another one follows in some seconds from now; hosts may still be being ended."""
        return self._due and replace(self._due, seconds=max(0.0, self._due_at - time.monotonic()))

    def __call__(self, news: News) -> None:
        if not self._has_turn():
            return
        if text := _of_a_run(news):
            self._log.info("attempt %d: %s", news.attempt, text) if news.attempt else self._log.info(text)
        self._events.hear(news)
        begun = has_begun(news)
        wanted = named(news)
        if begun is not None and begun != self.has_begun:
            self.has_begun, wanted = begun, BEGUN if begun else None
        elif self.has_begun:
            wanted = None
        if news.due is not None:
            self._due, self._due_at, self.wanted = news.due, time.monotonic() + news.due.seconds, None
            self._failed()
        if news.ended is not None:
            self.has_begun, self.wanted = False, None
        if wanted is not None and wanted != self.wanted:
            self.wanted = wanted
            self._changed()


def _of_a_run(news: News) -> str | None:
    """A job has its value as soon as the flow's process has ended by itself, also where the flow has failed."""
    if news.ended is not None and news.ended.failure is None:
        return LEFT
    return None if news.text == JobState.SUCCEEDED.value else news.text
