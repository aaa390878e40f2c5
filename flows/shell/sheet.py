"""How does one job stand, in full, and what is to be done next? `prefect-tpu status`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.flows.shell.durations import written
from prefect_tpu.flows.shell.ending import again
from prefect_tpu.flows.shell.found import found, words_for
from prefect_tpu.flows.shell.picture import STYLES, attempts, has_failed, picture, silent
from prefect_tpu.infra import layout
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.host_status import HostStatus
from prefect_tpu.infra.launcher.status import JobStatus, StatusReader, pause_between_looks
from prefect_tpu.infra.launcher.wording import metrics_in_words
from prefect_tpu.infra.state import HostPhase, JobState
from prefect_tpu.infra.storage import Storage

WATCH_SECONDS = 1.0


def show(name: str, output: str | None, *, watch: bool, as_json: bool) -> None:
    """Print the sheet, or a JSON object; with `watch` on each change until the job has its end."""
    storage, job = found(name, output)
    if as_json:
        for seen in _seen(storage, watch):
            typer.echo(json.dumps(seen.to_json()))
        return
    console = Console(highlight=False)
    if watch and console.is_terminal:
        _watch(storage, job, console)
        return
    for seen in _seen(storage, watch):
        console.print(sheet(seen, job, storage, time.time()), soft_wrap=not console.is_terminal)


def _watch(storage: Storage, job: SliceJob, console: Console) -> None:
    """Drawn anew in place, whether anything has changed or not: its clock runs."""
    reader, pause = StatusReader(storage), pause_between_looks(storage, WATCH_SECONDS)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            seen = reader.read()
            live.update(sheet(seen, job, storage, time.time()), refresh=True)
            if seen.state.is_final:
                return
            time.sleep(pause)


def _seen(storage: Storage, watch: bool) -> Iterator[JobStatus]:
    """What is seen of the job: once, or whenever it has changed."""
    before, reader, pause = None, StatusReader(storage), pause_between_looks(storage, WATCH_SECONDS)
    while True:
        seen = reader.read()
        if seen != before:
            before = seen
            yield seen
        if not watch or seen.state.is_final:
            return
        time.sleep(pause)


def sheet(seen: JobStatus, job: SliceJob, storage: Storage, now: float) -> Group:
    """Everything a person may want to know of a job, in the order in which it is asked."""
    parts: list[RenderableType] = [picture(seen, took=_lasted(seen, now)), *_facts(seen, job, storage, now)]
    if seen.hosts:
        parts += [Text(), *_hosts(seen.hosts)]
    if seen.attempts:
        parts += [Text(), *attempts(seen.attempts)]
    if seen.failure is not None:
        parts += [Text(), Text(str(seen.failure), style=STYLES[seen.state])]
    return Group(*parts, Text(), *(Text(line) for line in advice(seen)))


def _lasted(seen: JobStatus, now: float) -> float:
    return (seen.changed if seen.state.is_final else now) - seen.began


def _facts(seen: JobStatus, job: SliceJob, storage: Storage, now: float) -> list[Text]:
    facts = {
        "program": " ".join([job.program.target, *job.program.arguments]),
        "runs as": _objects(seen, job),
        "driven by": "nobody" if seen.is_abandoned else seen.driver,
        "waits for": seen.waiting,
        "value": None if seen.value is None else json.dumps(seen.value),
        "saved": None if seen.saved_step is None else f"step {seen.saved_step}",
        "slow": str(seen.slow_host) if seen.slow_host and seen.state.is_final else None,
        "changed": f"{written(now - seen.changed)} ago",
        "drills": ", ".join(_drills(job, storage)) or None,
        "files": seen.output,
    }
    return [Text(f"{name:<11}{value}") for name, value in facts.items() if value is not None]


def _objects(seen: JobStatus, job: SliceJob) -> str | None:
    """What to look for in the cluster; None where hosts are processes, or nothing is left to be looked at."""
    if job.pods is None or not seen.attempt or seen.state.is_final:
        return None
    cluster = f"cluster {seen.cluster!r}" if seen.cluster else "the cluster at hand"
    return f"JobSet {layout.attempt_name(job.name, seen.attempt)} in namespace {job.pods.namespace!r} of {cluster}"


def _drills(job: SliceJob, storage: Storage) -> Iterator[str]:
    for index, drill in enumerate(job.drills):
        struck = storage.get(layout.drill(index)) is not None
        yield f"{drill} ({'has struck' if struck else 'is to come'})"


def _hosts(hosts: Sequence[HostStatus]) -> list[Text]:
    return columns(("HOST", "STATE", "STEP", "SAVED", "METRICS"), [_row(host) for host in hosts])


def _row(host: HostStatus) -> list[str | Text]:
    report = host.progress
    return [
        str(host.host),
        Text(_state(host), style="red" if has_failed(host) else ""),
        _number(report.step),
        _number(report.saved_step),
        metrics_in_words(report.metrics),
    ]


def _state(host: HostStatus) -> str:
    if host.phase is HostPhase.ENDED:
        code = "without a readable record" if host.exit_code is None else f"exit {host.exit_code}"
        return f"ended, {code}" + (f" ({host.stop_reason})" if host.stop_reason else "")
    if said := silent([host]):
        return said[0].partition(" ")[2].partition(" ")[2]
    return "starting" if host.phase is HostPhase.RUNNING and not host.joined else host.phase.value


def _number(step: int | None) -> str:
    return "-" if step is None else str(step)


def advice(seen: JobStatus) -> list[str]:
    """What to do next, as commands to copy."""
    job = words_for(seen.output)
    match seen.state:
        case JobState.SUCCEEDED:
            return [f"What it wrote: prefect-tpu logs {job}"]
        case JobState.FAILED:
            told = [seen.failure.advice] if seen.failure else []
            why = [f"Why: prefect-tpu logs {job}{_failed_host(seen)} --tail 30"] if seen.attempts else []
            return [*told, *why, again(seen.name, has_begun=bool(seen.attempts))]
        case JobState.STOPPED:
            return [again(seen.name, has_begun=bool(seen.attempts))]
    if seen.is_abandoned:
        return [f"Nobody drives it. To go on: prefect-tpu attach {job}", f"To end it:  prefect-tpu stop {job}"]
    return [f"Follow it: prefect-tpu attach {job}", f"Stop it:   prefect-tpu stop {job}"]


def _failed_host(seen: JobStatus) -> str:
    host = seen.failure.host if seen.failure else None
    return f" --host {host}" if host else ""
