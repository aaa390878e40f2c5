"""How is one job followed to its end from a shell? Driven, shown, let go of: `run`, `attach` and `stop` do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

import typer

from prefect_tpu.flows.background import see_to_it, start_driver
from prefect_tpu.flows.shell.ending import show_end, verdict
from prefect_tpu.flows.shell.exit_status import ExitStatus, TimedOut, of_end
from prefect_tpu.flows.shell.following import follow_while_driven
from prefect_tpu.flows.shell.found import words_for
from prefect_tpu.flows.shell.interrupts import Interrupts, TimeIsOver
from prefect_tpu.flows.shell.progress import Display, showing
from prefect_tpu.flows.streams import answer
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driving import Detach, Driving, drive_to_end, driving
from prefect_tpu.infra.launcher.lease import driver_of
from prefect_tpu.infra.launcher.news import News
from prefect_tpu.infra.loss_picture import draw_loss, drawing_ahead
from prefect_tpu.infra.request import Request, job_folder, prepare
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage, open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What a command does with one job.

    get: the job, prepared or read; it may tell the display what it copies.
    goes_on: a job that had ended badly begins again; else every end is the end.
    timeout: seconds, after which the job is let go.
    """

    name: str
    folder: str
    get: Callable[[Display], SliceJob]
    goes_on: bool
    timeout: float | None = None


def carry_out(request: Request, *, as_json: bool) -> ExitStatus:
    """Run a job to its end: begun, found running, or gone on with."""
    _compile_ahead(request, as_json=as_json)
    folder = job_folder(request.output, request.name)
    errand = Errand(name=request.name, folder=folder, get=lambda shown: prepare(request, shown.copied), goes_on=True)
    return _to_its_end(errand, as_json=as_json)


def detach(request: Request, *, as_json: bool) -> ExitStatus:
    """Begin a job, or go on with it, and leave it to a driver in the background."""
    _compile_ahead(request, as_json=as_json)
    storage = open_storage(job_folder(request.output, request.name))
    with showing(request.name, storage.url) as display:
        job = prepare(request, display.copied)
        see_to_it(storage, job)
    told = {"job": job.name, "output": storage.url, "driver": _driver(storage)}
    answer(json.dumps(told) if as_json else job.name, advice=f"The job is {job.name!r} in {storage.url}.")
    sys.stderr.write(f"{_how_it_stands(storage, job.name)}\n")
    return ExitStatus.SUCCEEDED


def _compile_ahead(request: Request, *, as_json: bool) -> None:
    """Raises `JobFailed` where the program's step is not for a slice that is asked for."""
    if request.compile:
        from prefect_tpu.flows.shell.compile_first import before_a_job

        before_a_job(request, is_quiet=as_json)


def attach(storage: Storage, job: SliceJob, *, as_json: bool, timeout: float | None = None) -> ExitStatus:
    """Follow a job that is there to its end; where nobody drives it, this process does."""
    return _to_its_end(there(storage, job, timeout), as_json=as_json)


def there(storage: Storage, job: SliceJob, timeout: float | None) -> Errand:
    """To follow a job that is there."""
    return Errand(name=job.name, folder=storage.url, get=lambda _: job, goes_on=False, timeout=timeout)


def _to_its_end(errand: Errand, *, as_json: bool) -> ExitStatus:
    result, interrupts = follow(errand)
    _show(result, as_json=as_json)
    if interrupts.reason is not None and result.state == "stopped":
        return ExitStatus.INTERRUPTED
    return of_end(result.state)


def follow(errand: Errand) -> tuple[JobResult, Interrupts]:
    """The job's end, and whether it was interrupted on its way there.

    Raises `TimedOut`, or leaves with the status of an interrupt, where the job was let go before.
    """
    interrupts = Interrupts(drives=errand.goes_on)
    storage, only_follows = open_storage(errand.folder), not errand.goes_on
    try:
        with interrupts.caught(errand.timeout), showing(errand.name, storage.url, by_age=only_follows) as display:
            job, heard = errand.get(display), drawing_ahead(display.heard)
            if errand.goes_on and (end := history.read_result(storage)) is not None and end.state == "succeeded":
                heard(News(job=job.name, state=JobState.SUCCEEDED, attempt=0, text=_DONE_BEFORE))
            if only_follows:
                follow_while_driven(storage, display.heard, display.saw)
            with driving(job, storage.url, heard, interrupts.asks_to_stop, goes_on=errand.goes_on) as driven:
                interrupts.drives = True
                result = _drive(driven, job.name)
                interrupts.end_of_waiting()
    except TimeIsOver:
        _hand_over(storage)
        over = f"Job {errand.name!r} has no end after {errand.timeout:.0f} s."
        raise TimedOut(f"{over} {_how_it_stands(storage, errand.name)}") from None
    except Detach:
        _hand_over(storage)
        sys.stderr.write(f"{_how_it_stands(storage, errand.name)}\n")
        raise typer.Exit(ExitStatus.INTERRUPTED) from None
    return result, interrupts


def _drive(driven: Driving, name: str) -> JobResult:
    """To its end. Where the platform does not let us, whoever reads why must know that the hosts were left alone."""
    try:
        return drive_to_end(driven)
    except PlatformError as exc:
        if driven.driver.is_following:
            exc.add_note(f"Its hosts were left running: to follow them, {_again(name)}.")
        raise


def _show(result: JobResult, *, as_json: bool) -> None:
    picture = draw_loss(result)
    show_end(result, picture.where if picture else None)
    if as_json:
        kept = f"{result.output}/{layout.RESULT}"
        answer(json.dumps(result.to_json()), advice=f"It is kept in {kept}; run the same command to see it again.")


def _hand_over(storage: Storage) -> None:
    """A job that was let go while it ran is driven on in the background: else its hosts would leave as orphans.

    One that was told to stop is left to itself: whoever runs it again wants it to go on.
    """
    has_begun = bool(history.attempt_numbers(storage)) and history.read_result(storage) is None
    if has_begun and not history.is_stop_asked(storage) and driver_of(storage) is None:
        start_driver(storage)


_DONE_BEFORE = "has succeeded before, and this is its end; a new job needs another --name"


def _how_it_stands(storage: Storage, name: str) -> str:
    """What becomes of a job that was let go, and how to come back to it."""
    if (end := history.read_result(storage)) is not None:
        return verdict(end)
    again, driver = _again(name), _driver(storage)
    if history.is_stop_asked(storage):
        return f"Job {name!r} in {storage.url} was told to stop and leaves by itself.\nTo go on later, {again}."
    if driver is None:
        return f"Job {name!r} had not begun: nothing of it runs.\nTo begin it, {again}."
    to_follow = f"To follow it: prefect-tpu attach {words_for(storage.url)}"
    return f"Job {name!r} runs on in {storage.url}, driven by {driver}.\n{to_follow}"


def _again(name: str) -> str:
    return f"run the same command with --name {name}"


def _driver(storage: Storage) -> str | None:
    driver = driver_of(storage)
    return None if driver is None else str(driver)
