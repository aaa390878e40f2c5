"""How did the job go? A table, and the steps lost and done again."""

from __future__ import annotations

import base64
from collections.abc import Sequence, Set
from dataclasses import dataclass
from urllib.parse import quote

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError, HostRecord
from prefect_tpu.infra.drills import Drill, DrillKind, Moment, parse_drill
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher.history import read_job
from prefect_tpu.infra.policy.offers import named, offer_of
from prefect_tpu.infra.rehearsal import Note, read_note
from prefect_tpu.infra.storage import BUCKET, open_storage

BROWSER = "https://console.cloud.google.com/storage/browser"  # followed by bucket and folder
TRACEBACK_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Of one attempt: how many steps it did, how many of them were done before, how many its end lost."""

    done: int
    again: int
    lost: int


def steps(attempts: Sequence[AttemptSummary]) -> tuple[Steps, ...]:
    """Counted from the first, last and saved step of each attempt.

    A step is lost where an attempt ended after it without a checkpoint of it or
    a later one, and done again where an earlier attempt had done it.
    """
    counted, furthest = [], -1
    for attempt in attempts:
        if attempt.first_step is None or attempt.last_step is None:
            counted.append(Steps(done=0, again=0, lost=0))
            continue
        again = max(0, min(furthest, attempt.last_step) - attempt.first_step + 1)
        lost = 0 if attempt.failure is None else attempt.last_step - _kept(attempt)
        counted.append(Steps(done=attempt.last_step - attempt.first_step + 1, again=again, lost=lost))
        furthest = max(furthest, attempt.last_step)
    return tuple(counted)


def _kept(attempt: AttemptSummary) -> int:
    """The last step that its end did not lose: saved here, or before it began."""
    assert attempt.first_step is not None
    return max(attempt.saved_step if attempt.saved_step is not None else -1, attempt.first_step - 1)


COLUMNS = ("attempt", "accelerator", "ended as", "host", "seconds", "steps", "lost", "done again")


def rows(result: JobResult) -> list[tuple[str, ...]]:
    """One row per attempt, under `COLUMNS`; with the place beside the accelerator where attempts were in several."""
    counted = zip(result.attempts, steps(result.attempts), names(result.attempts), strict=True)
    return [_row(attempt, count, name) for attempt, count, name in counted]


def names(attempts: Sequence[AttemptSummary]) -> list[str]:
    """What each ran on, with what tells its place apart from those of the others."""
    offers = [offer_of(attempt) for attempt in attempts]
    return [named(offer, offers) for offer in offers]


def _row(attempt: AttemptSummary, count: Steps, name: str) -> tuple[str, ...]:
    host = attempt.failure.host if attempt.failure else None
    span = "" if attempt.first_step is None else f"{attempt.first_step}–{attempt.last_step}"
    return (
        str(attempt.number),
        name,
        attempt.outcome,
        "" if host is None else str(host),
        f"{(attempt.ended or attempt.started) - attempt.started:.1f}",
        span,
        str(count.lost),
        str(count.again),
    )


def failing_traceback(result: JobResult) -> str | None:
    """The end of the traceback on the host where the failure began; None where it left none."""
    failure = result.failure
    if failure is None or failure.host is None or not result.attempts:
        return None
    raw = open_storage(result.output).get(layout.record(result.attempts[-1].number, failure.host))
    try:
        error = HostRecord.from_json(raw or b"").error
    except ContractError:
        return None
    return "\n".join(error.traceback.splitlines()[-TRACEBACK_LINES:]) if error else None


def markdown(result: JobResult, picture: bytes | None) -> str:
    """The same for Prefect's artifacts, with the picture as PNG."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(row) + " |" for row in rows(result)]
    counts = steps(result.attempts)
    lost, again = sum(count.lost for count in counts), sum(count.again for count in counts)
    end = [
        f"**{result.state}** · attempts: {len(counts)} · steps lost: {lost} · done again: {again}",
        f"Output: {linked(result.output)}",
    ]
    if result.attempts:
        last = result.attempts[-1].number
        logs = linked(f"{result.output}/{layout.hosts(last)}")
        end.append(f"Logs of attempt {last}, a folder for each host: {logs}")
    if result.failure is not None:
        end.append(f"{result.failure.kind}: {result.failure.message} {result.failure.advice}")
    elif result.value is not None:
        end.append(f"Value: `{result.value}`")
    end += notes(result)
    if picture is not None:
        end.append(f"![Loss]({as_url(picture)})")
    return "\n".join(lines) + "\n\n" + "\n\n".join(end) + "\n"


def linked(place: str) -> str:
    """A place in Markdown, as a link where it is in a bucket: Google's console shows what lies there.

    A page of a server may open no file of the machine that it is seen on.
    """
    if not place.startswith(BUCKET):
        return f"`{place}`"
    return f"[`{place}`]({BROWSER}/{quote(place.removeprefix(BUCKET))})"


def as_url(picture: bytes) -> str:
    """The picture itself as a URL: whoever looks at the page may not see where it lies."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def notes(result: JobResult) -> list[str]:
    """What the table leaves out, a sentence each: slices that were not to be had, hosts that kept the others waiting,
    and drills that came to nothing.
    """
    told = zip(result.attempts, names(result.attempts), strict=True)
    moves = [f"Attempt {a.number} ran on {name}: {a.instead_of}." for a, name in told if a.instead_of and _had_slice(a)]
    slow = [f"In attempt {a.number} {a.slow_host}." for a in result.attempts if a.slow_host]
    return moves + slow + drills_without_effect(result)


def _had_slice(attempt: AttemptSummary) -> bool:
    return attempt.failure is None or attempt.failure.kind != FailureKind.NO_CAPACITY


def drills_without_effect(result: JobResult) -> list[str]:
    """A sentence for each rehearsed failure that never struck, or that its attempt outran."""
    storage = open_storage(result.output)
    job = read_job(storage)
    succeeded = {attempt.number for attempt in result.attempts if attempt.failure is None}
    drills = enumerate(map(parse_drill, job.drills if job is not None else ()))
    found = (_without_effect(drill, read_note(storage, index), succeeded) for index, drill in drills)
    return [sentence for sentence in found if sentence is not None]


def _without_effect(drill: Drill, note: Note | None, succeeded: Set[int]) -> str | None:
    if note is None:
        return f"Drill {drill} never struck: {_never_came(drill)}."
    if note.attempt not in succeeded or drill.kind in _HARMLESS or drill.is_the_launchers:
        return None
    return f"Drill {drill} struck {note.when} of attempt {note.attempt}, which {_outran(drill)}."


_HARMLESS = frozenset({DrillKind.SLOW, DrillKind.ORCHESTRATOR_KILL})  # the attempt goes on


def _never_came(drill: Drill) -> str:
    attempts = "no attempt" if drill.attempt is None else f"no attempt {drill.attempt}"
    match drill.moment:
        case Moment.START:
            return f"{attempts} began" if drill.is_the_launchers else f"{attempts} began on its host"
        case Moment.STEP:
            return f"in {attempts} its host reported a step that late"
        case Moment.SAVE:
            return f"in {attempts} its host saved that often"


def _outran(drill: Drill) -> str:
    if drill.kind in (DrillKind.FAIL, DrillKind.OOM):
        return "took no harm: its program caught the exception"
    return "ended before it could leave"
