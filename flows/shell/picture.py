"""How does a job look on a terminal? One picture, drawn from its status: `run`, `attach` and `status` show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.flows.shell.durations import clock, written
from prefect_tpu.infra.contract import Activity, Progress
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher.host_status import HostStatus
from prefect_tpu.infra.launcher.status import JobStatus
from prefect_tpu.infra.launcher.wording import progress_in_words
from prefect_tpu.infra.policy.offers import offer_of, where
from prefect_tpu.infra.state import HostPhase, JobState
from prefect_tpu.infra.summary import Steps
from prefect_tpu.infra.summary import steps as count_steps

T = TypeVar("T")
STYLES = {
    JobState.QUEUED: "yellow",
    JobState.STARTING: "cyan",
    JobState.RUNNING: "cyan",
    JobState.STOPPING: "yellow",
    JobState.BACKING_OFF: "yellow",
    JobState.SUCCEEDED: "green",
    JobState.FAILED: "red",
    JobState.STOPPED: "yellow",
}
WHERE = "WHERE"  # a column only where attempts or jobs were in different places
COLUMNS = ("ATTEMPT", "ACCELERATOR", WHERE, "ENDED AS", "HOST", "TOOK", "STEPS", "SAVED", "LOST", "AGAIN")
BAR_WIDTH, LEAST_BAR_WIDTH = 24, 8
MARKS = {HostPhase.PENDING: ("○", "dim"), HostPhase.RUNNING: ("●", "green"), HostPhase.ENDED: ("■", "dim")}


def head(seen: JobStatus, *, took: float, state: JobState | None = None) -> Text:
    """`digits · attempt 2 on v6e-16 · running · 1:05`."""
    state = state or seen.state
    offer = f"{seen.accelerator} in {seen.where}" if seen.where else seen.accelerator
    attempt = f"attempt {seen.attempt} on {offer}" if seen.attempt else offer
    return Text.assemble((seen.name, "bold"), f" · {attempt} · ", (_words(state), STYLES[state]), f" · {clock(took)}")


def picture(seen: JobStatus, *, took: float, state: JobState | None = None, left: float | None = None) -> Group:
    """The whole of it: where the job stands, its steps, its hosts, and who is silent."""
    lines: list[RenderableType] = [head(seen, took=took, state=state)]
    report = progress(seen)
    if report.step is not None and not seen.state.is_final:
        lines.append(_bar(seen, report, left))
    elif report.saved_step is not None and not seen.state.is_final:
        lines.append(Text(f"goes on from step {report.saved_step}"))
    if seen.hosts and not seen.state.is_final:
        lines += [_hosts(seen.hosts), *(Text(line, style="yellow") for line in silent(seen.hosts))]
        if seen.slow_host is not None:
            lines.append(Text(str(seen.slow_host), style="yellow"))
    return Group(*lines)


def progress(seen: JobStatus) -> Progress:
    """Of the whole job: the furthest step and save of any host, the leader's metrics."""
    metrics = seen.hosts[0].progress.metrics if seen.hosts else {}
    return Progress(step=seen.step, saved_step=seen.saved_step, metrics=metrics)


def silent(hosts: Sequence[HostStatus]) -> list[str]:
    """`host 2 silent for 40s, compiling`: one line for all that do the same, and none for who only waits for them."""
    groups: dict[tuple[Activity, str], list[int]] = {}
    for host in hosts:
        if host.silent_seconds is not None and host.phase is HostPhase.RUNNING:
            what = (host.activity or Activity.UNKNOWN, written(host.silent_seconds))
            groups.setdefault(what, []).append(host.host)
    return [_silence(numbers, activity, since) for (activity, since), numbers in groups.items()]


def _silence(numbers: Sequence[int], activity: Activity, since: str) -> str:
    who = f"host {numbers[0]}" if len(numbers) == 1 else f"hosts {', '.join(map(str, numbers))}"
    doing = "" if activity is Activity.UNKNOWN else f", {activity}"
    return f"{who} silent for {since}{doing}"


def attempts(ended: Sequence[AttemptSummary]) -> list[Text]:
    """One row per attempt that has ended, under a header."""
    offers = [offer_of(attempt) for attempt in ended]
    places = [where(offer, offers) for offer in offers]
    rows = [_row(*facts) for facts in zip(ended, places, count_steps(ended), strict=True)]
    return columns(*without_empty(WHERE, COLUMNS, rows))


def without_empty(column: str, header: Sequence[str], rows: Sequence[list[T]]) -> tuple[list[str], list[list[T]]]:
    """The same table, without this column where no row has anything in it."""
    index = list(header).index(column)
    if any(row[index] for row in rows):
        return list(header), list(rows)
    return [name for name in header if name != column], [[*row[:index], *row[index + 1 :]] for row in rows]


def _row(attempt: AttemptSummary, place: str, count: Steps) -> list[str]:
    host = attempt.failure.host if attempt.failure else None
    return [
        str(attempt.number),
        attempt.accelerator,
        place,
        attempt.outcome,
        "-" if host is None else str(host),
        written((attempt.ended or attempt.started) - attempt.started),
        "-" if attempt.first_step is None else f"{attempt.first_step}–{attempt.last_step}",
        "-" if attempt.saved_step is None else str(attempt.saved_step),
        str(count.lost),
        str(count.again),
    ]


def _bar(seen: JobStatus, report: Progress, left: float | None) -> RenderableType:
    if seen.steps is None:
        return Text(progress_in_words(report))
    assert report.step is not None
    done = min(report.step + 1, seen.steps)
    rest = "" if left is None else f", {clock(left)} left"
    words = Text(f"{100 * done // seen.steps} % {progress_in_words(report, seen.steps)}{rest}")
    return _BarAndWords(ProgressBar(total=seen.steps, completed=done), words)


@dataclass(frozen=True, slots=True)
class _BarAndWords:
    """On one line, as long as there is room for a bar that still says something: the words come first."""

    bar: ProgressBar
    words: Text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        room = options.max_width - self.words.cell_len - 1
        line = Table.grid(Column(width=min(BAR_WIDTH, max(LEAST_BAR_WIDTH, room))), Column(), padding=(0, 1))
        line.add_row(self.bar, self.words)
        yield line


def _hosts(hosts: Sequence[HostStatus]) -> Text:
    text = Text("hosts ")
    for host in hosts:
        mark, style = MARKS[host.phase]
        text.append(f"{mark} ", style="red" if has_failed(host) else style)
    return text.append(_count(hosts))


def _count(hosts: Sequence[HostStatus]) -> str:
    """`4 running`, `1 starting, 3 running`: what the marks stand for."""
    words = [_phase(host) for host in hosts]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def _phase(host: HostStatus) -> str:
    if host.phase is HostPhase.RUNNING:
        return "running" if host.joined else "starting"
    return "failed" if has_failed(host) else host.phase.value


def has_failed(host: HostStatus) -> bool:
    return host.phase is HostPhase.ENDED and host.exit_code != 0


def _words(state: JobState) -> str:
    return state.value.replace("_", " ")
