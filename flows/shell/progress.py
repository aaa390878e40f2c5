"""What a person sees while a job runs: a live picture on a terminal, plain lines elsewhere.

All of it goes to standard error; standard output is for the result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from prefect_tpu.flows.shell.durations import clock
from prefect_tpu.flows.shell.picture import picture, progress
from prefect_tpu.infra.contract import Progress
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.launcher.status import JobStatus, StatusReader, pause_between_looks
from prefect_tpu.infra.launcher.wording import progress_in_words
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import open_storage

PLAIN_SECONDS = 10.0  # between two lines about steps where nobody watches
LOOK_SECONDS = 0.5  # between two looks at the job's files


class Display(Protocol):
    """Hears of a job and shows it."""

    def heard(self, news: News) -> None: ...

    def saw(self, seen: JobStatus) -> None:
        """A job that another process drives."""
        ...

    def copied(self, size: int) -> None: ...


@contextmanager
def showing(job: str, folder: str, *, by_age: bool = False) -> Iterator[Display]:
    """The display that suits standard error. `by_age`: its clock counts from the job's beginning, not from now."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield PlainDisplay(console, job)
        return
    display = LiveDisplay(console, job, folder, by_age)
    with Live(console=console, get_renderable=display.picture, refresh_per_second=4, transient=True):
        yield display


class PlainDisplay:
    """One line per change; steps now and then, and the last one."""

    def __init__(self, console: Console, job: str) -> None:
        self._console, self._job = console, job
        self._next = 0.0
        self._newest = self._told = Progress()

    def heard(self, news: News) -> None:
        if news.ended is not None:
            self._tell(news.attempt)
        if news.text:
            self._line(news.attempt, news.text)
        elif news.observation is not None:
            self._steps(news.attempt, news.observation.progress)

    def saw(self, seen: JobStatus) -> None:
        self._steps(seen.attempt, progress(seen))

    def copied(self, size: int) -> None:
        """Nothing: staging is told when it is done."""

    def _steps(self, attempt: int, report: Progress) -> None:
        self._newest = report
        if time.monotonic() >= self._next:
            self._tell(attempt)

    def _tell(self, attempt: int) -> None:
        if self._newest.step != self._told.step and (text := progress_in_words(self._newest)):
            self._next, self._told = time.monotonic() + PLAIN_SECONDS, self._newest
            self._line(attempt, text)

    def _line(self, attempt: int, text: str) -> None:
        where = f" attempt {attempt}" if attempt else ""
        self._console.print(f"{self._job}{where} · {text}", soft_wrap=True, markup=False)


class LiveDisplay:
    """The job's picture, redrawn in place; what happened scrolls above.

    The picture is drawn from the job's files, so it shows a job that another process drives as well.
    """

    def __init__(self, console: Console, job: str, folder: str, by_age: bool) -> None:
        self._console, self._job, self._folder, self._by_age = console, job, folder, by_age
        self._began = time.monotonic()
        self._bytes = 0
        self._state: JobState | None = None
        self._pace = Pace()
        self._reader: StatusReader | None = None
        self._pause = LOOK_SECONDS
        self._seen: JobStatus | None = None
        self._next_look = 0.0

    def heard(self, news: News) -> None:
        if news.observation is not None or news.attempt:
            self._state = news.state
        if news.text:
            where = f"attempt {news.attempt} · " if news.attempt else ""
            self._console.print(f"{where}{news.text}", markup=False)

    def saw(self, seen: JobStatus) -> None:
        """The picture looks itself."""
        self._state = None

    def copied(self, size: int) -> None:
        self._bytes += size

    def picture(self) -> RenderableType:
        """Called by the terminal's own thread, several times a second."""
        now = time.monotonic()
        if now >= self._next_look:
            self._look(now)
            self._next_look = now + self._pause
        if self._seen is None:
            staged = f"staging data: {self._bytes / 2**20:.1f} MiB copied" if self._bytes else "packing"
            return Text(f"{self._job} · {staged} · {clock(now - self._began)}")
        took = time.time() - self._seen.began if self._by_age else now - self._began
        return picture(self._seen, took=took, state=self._state, left=self._pace.left(self._seen))

    def _look(self, now: float) -> None:
        try:
            if self._reader is None:
                storage = open_storage(self._folder)
                self._reader, self._pause = StatusReader(storage), pause_between_looks(storage, LOOK_SECONDS)
            self._seen = self._reader.read()
        except PrefectTpuError:
            return  # not there yet, or damaged: whoever drives the job says so
        self._pace.note(now, self._seen)


class Pace:
    """How long the rest takes at the newest attempt's own pace."""

    def __init__(self) -> None:
        self._attempt = 0
        self._first: tuple[float, int] | None = None
        self._last: tuple[float, int] | None = None

    def note(self, now: float, seen: JobStatus) -> None:
        if seen.attempt != self._attempt:
            self._attempt, self._first, self._last = seen.attempt, None, None
        if seen.step is not None:
            self._first = self._first or (now, seen.step)
            if self._last is None or seen.step > self._last[1]:
                self._last = (now, seen.step)

    def left(self, seen: JobStatus) -> float | None:
        """Seconds; None where nothing can be said yet."""
        if self._first is None or self._last is None or seen.steps is None or self._last[1] <= self._first[1]:
            return None
        pace = (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])
        return pace * max(0, seen.steps - 1 - self._last[1])
