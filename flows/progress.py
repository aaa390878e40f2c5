"""What a person sees while a job runs: a live picture on a terminal, plain lines elsewhere.

All of it goes to standard error; standard output is for the result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from prefect_tpu.infra import layout
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.state import Observation
from prefect_tpu.infra.summary import COLUMNS, drills_that_never_struck, failing_traceback, rows

PLAIN_SECONDS = 10.0  # between two lines about steps where nobody watches


class Display(Protocol):
    """Hears of a job and shows it."""

    def heard(self, news: News) -> None: ...

    def copied(self, size: int) -> None: ...


@contextmanager
def showing(job: str, steps: object) -> Iterator[Display]:
    """The display that suits standard error. `steps`: how many there will be, where that is known."""
    console = Console(stderr=True, highlight=False)
    total = steps if isinstance(steps, int) and steps > 0 else None
    if not console.is_terminal:
        yield PlainDisplay(console, job)
        return
    live = Live(console=console, auto_refresh=True, refresh_per_second=4, transient=True)
    with live:
        yield LiveDisplay(live, job, total)


class PlainDisplay:
    """One line per change; steps now and then."""

    def __init__(self, console: Console, job: str) -> None:
        self._console, self._job = console, job
        self._next = 0.0

    def heard(self, news: News) -> None:
        if news.text:
            self._line(news, news.text)
        elif news.observation is not None and time.monotonic() >= self._next:
            text = _steps(news.observation)
            if text:
                self._next = time.monotonic() + PLAIN_SECONDS
                self._line(news, text)

    def copied(self, size: int) -> None:
        """Nothing: staging is told when it is done."""

    def _line(self, news: News, text: str) -> None:
        where = f" attempt {news.attempt}" if news.attempt else ""
        self._console.print(f"{self._job}{where} · {text}", soft_wrap=True, markup=False)


class LiveDisplay:
    """The job's state, its hosts and its steps, redrawn in place; what happened scrolls above."""

    def __init__(self, live: Live, job: str, total: int | None) -> None:
        self._live, self._job, self._total = live, job, total
        self._began = time.monotonic()
        self._bytes = 0
        self._first: tuple[float, int] | None = None
        self._news: News | None = None
        self._observation: Observation | None = None

    def heard(self, news: News) -> None:
        self._news = news
        if news.observation is not None:
            self._observation = news.observation
            self._note_first_step(news.observation)
        if news.ended is not None:
            self._first = self._observation = None
        if news.text:
            where = f"attempt {news.attempt} · " if news.attempt else ""
            self._live.console.print(f"{where}{news.text}", markup=False, highlight=False)
        self._live.update(self._picture())

    def copied(self, size: int) -> None:
        self._bytes += size
        self._live.update(Text(f"{self._job} · staging data: {self._bytes / 2**20:.1f} MiB copied"))

    def _note_first_step(self, seen: Observation) -> None:
        step = seen.progress.step
        if step is not None and self._first is None:
            self._first = (time.monotonic(), step)

    def _picture(self) -> RenderableType:
        assert self._news is not None
        took = _clock(time.monotonic() - self._began)
        attempt = f" · attempt {self._news.attempt}" if self._news.attempt else ""
        head = Text.assemble((self._job, "bold"), f"{attempt} · ", (self._news.state.value, "cyan"), f" · {took}")
        if self._observation is None:
            return head
        return Group(head, *self._bar(self._observation), _hosts(self._observation))

    def _bar(self, seen: Observation) -> list[RenderableType]:
        step = seen.progress.step
        if step is None:
            return []
        text = Text(_steps(seen))
        if self._total is None:
            return [text]
        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(total=self._total, completed=step + 1, width=40), text, Text(self._left(step)))
        return [line]

    def _left(self, step: int) -> str:
        """How long the rest takes at this attempt's own pace."""
        if self._first is None or self._total is None or step <= self._first[1]:
            return ""
        began, first = self._first
        pace = (time.monotonic() - began) / (step - first)
        return f"{_clock(pace * (self._total - step - 1))} left"


def show_end(result: JobResult, picture: Path | None) -> None:
    """The attempts as a table, the value or the failure, and where everything lies."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    table = Table(*COLUMNS, box=None, header_style="bold", padding=(0, 2, 0, 0))
    for row in rows(result):
        table.add_row(*row)
    console.print(table)
    if result.failure is not None:
        console.print(f"{result.job} {result.state}: {result.failure.kind}: {result.failure.message}", markup=False)
        console.print(result.failure.advice, markup=False)
        console.print(_traceback(result), markup=False, end="")
    else:
        console.print(f"{result.job} {result.state}: {result.value}", markup=False)
    for line in drills_that_never_struck(result):
        console.print(line, markup=False)
    console.print(f"output: {result.output}", markup=False)
    if picture is not None:
        console.print(f"loss:   {picture}", markup=False)


def _traceback(result: JobResult) -> str:
    """The end of the failing host's traceback, and where its whole log is."""
    failure = result.failure
    if failure is None or failure.host is None or not result.attempts:
        return ""
    log = f"{result.output}/{layout.log(result.attempts[-1].number, failure.host)}"
    return "\n".join([*filter(None, [failing_traceback(result)]), f"log: {log}", ""])


def _steps(seen: Observation) -> str:
    progress = seen.progress
    if progress.step is None:
        return ""
    metrics = "".join(f", {name} {value:.4g}" for name, value in progress.metrics.items())
    saved = "nothing saved" if progress.saved_step is None else f"step {progress.saved_step} saved"
    return f"step {progress.step}{metrics}, {saved}"


def _hosts(seen: Observation) -> Text:
    marks = {"pending": ("○", "dim"), "running": ("●", "green"), "ended": ("■", "yellow")}
    text = Text("hosts ")
    for host in seen.hosts:
        mark, style = marks[host.phase.value]
        text.append(f"{mark} ", style="red" if host.has_failed else style)
    return text


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"
