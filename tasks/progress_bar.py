"""How far is the training? A progress bar among the run's artifacts, brought up to date while it trains."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.exceptions import PrefectHTTPStatusError

from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.wording import progress_in_words
from prefect_tpu.infra.state import Observation
from prefect_tpu.tasks.reporting import Log, logged

SHORTEST_PAUSE_SECONDS = 3.0  # between two calls of the API
PAUSE_AFTER_ERROR_SECONDS = 60.0  # an API that does not answer must not hold up what waits for the news


@contextmanager
def showing_progress(driving: Driving) -> Iterator[Log]:
    """As `logged`, with a bar for a job that says how many `steps` it takes."""
    with logged(driving) as log:
        total = driving.driver.job.program.steps
        if total is None:
            yield log
            return
        bar = ProgressBar(driving.driver.job.name, total, log)
        report = driving.listen

        def listen(news: News) -> None:
            report(news)
            bar.hear(news)

        driving.listen = listen
        try:
            yield log
        finally:
            bar.show_newest()


class ProgressBar:
    """One progress artifact per attempt, all under the job's key. Called in the task's own thread."""

    def __init__(self, job: str, total: int, log: Log) -> None:
        self._key, self._total, self._log = f"progress-{job}", total, log
        self._id: UUID | None = None
        self._attempt = 0
        self._newest: Observation | None = None
        self._shown: int | None = None
        self._next = 0.0
        self._is_done = False

    def hear(self, news: News) -> None:
        if news.observation is not None:
            self._attempt, self._newest = news.attempt, news.observation
            if time.monotonic() >= self._next:
                self.show_newest()
        if news.ended is not None and news.ended.failure is None:
            self._is_done, self._shown = True, None

    @property
    def _percent(self) -> float:
        """All of it at a good end, though the program reported its last steps to nobody."""
        assert self._newest is not None and self._newest.progress.step is not None, "only a step that was seen is shown"
        return 100.0 if self._is_done else min(100.0, 100.0 * (self._newest.progress.step + 1) / self._total)

    def show_newest(self) -> None:
        """Show the newest step, if it is not shown already. A failure of the API is logged and forgiven."""
        step = None if self._newest is None else self._newest.progress.step
        if step is None or step == self._shown:
            return
        self._shown, self._next = step, time.monotonic() + SHORTEST_PAUSE_SECONDS
        try:
            self._show(self._percent)
        except (httpx.HTTPError, PrefectHTTPStatusError, OSError) as exc:
            self._next = time.monotonic() + PAUSE_AFTER_ERROR_SECONDS
            self._log.warning("The progress could not be shown: %s", exc)

    def _show(self, percent: float) -> None:
        assert self._newest is not None, "only a step that was seen is shown"
        done = "done: " if self._is_done else ""
        text = f"attempt {self._attempt}: {done}{progress_in_words(self._newest.progress, self._total)}"
        if self._id is None:
            created = create_progress_artifact(percent, key=self._key, description=text)
            assert isinstance(created, UUID), "a task that is a plain function gets the answer itself"
            self._id = created
        else:
            update_progress_artifact(self._id, percent, description=text)
