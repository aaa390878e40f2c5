"""How did the job go? A table, the steps lost and done again, and the loss as a picture."""

from __future__ import annotations

import base64
import contextlib
import logging
import math
import threading
from collections.abc import Sequence, Set
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeGuard

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ContractError, Event, HostRecord
from prefect_tpu.infra.drills import Drill, DrillKind, Moment, parse_drill
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher.history import read_job
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Listener, News
from prefect_tpu.infra.rehearsal import Note, read_note
from prefect_tpu.infra.storage import LocalStorage

log = logging.getLogger(__name__)
PICTURE = "loss.png"
LEADER = "host0"
LOSS = "loss"  # the metric that is drawn
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
    """One row per attempt, under `COLUMNS`."""
    return [_row(attempt, count) for attempt, count in zip(result.attempts, steps(result.attempts), strict=True)]


def _row(attempt: AttemptSummary, count: Steps) -> tuple[str, ...]:
    host = attempt.failure.host if attempt.failure else None
    span = "" if attempt.first_step is None else f"{attempt.first_step}–{attempt.last_step}"
    return (
        str(attempt.number),
        attempt.accelerator,
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
    raw = LocalStorage(result.output).get(layout.record(result.attempts[-1].number, failure.host))
    try:
        error = HostRecord.from_json(raw or b"").error
    except ContractError:
        return None
    return "\n".join(error.traceback.splitlines()[-TRACEBACK_LINES:]) if error else None


def markdown(result: JobResult, picture: Path | None) -> str:
    """The same for Prefect's artifacts."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(row) + " |" for row in rows(result)]
    counts = steps(result.attempts)
    lost, again = sum(count.lost for count in counts), sum(count.again for count in counts)
    end = [
        f"**{result.state}** · attempts: {len(counts)} · steps lost: {lost} · done again: {again}",
        f"Output: `{result.output}`",
    ]
    if result.failure is not None:
        end.append(f"{result.failure.kind}: {result.failure.message} {result.failure.advice}")
    elif result.value is not None:
        end.append(f"Value: `{result.value}`")
    end += notes(result)
    if picture is not None:
        end.append(f"![Loss]({_as_url(picture)})")
    return "\n".join(lines) + "\n\n" + "\n\n".join(end) + "\n"


def _as_url(picture: Path) -> str:
    """The picture itself as a URL: whoever looks at the page may not see this machine's files."""
    return f"data:image/png;base64,{base64.b64encode(picture.read_bytes()).decode()}"


def drawing_ahead(listen: Listener) -> Listener:
    """The same listener, which at the first loss it hears of begins to load what `draw_loss` needs at the end."""
    is_loading = False

    def heard(news: News) -> None:
        nonlocal is_loading
        if not is_loading and news.observation is not None and LOSS in news.observation.progress.metrics:
            is_loading = True
            threading.Thread(target=_load_drawing, name="drawing", daemon=True).start()
        listen(news)

    return heard


def _load_drawing() -> None:
    """Most of a second, which costs nobody anything while the hosts train."""
    with contextlib.suppress(Exception):  # told where something is drawn
        import_module("matplotlib.figure")


def draw_loss(result: JobResult) -> Path | None:
    """`loss.png` in the job's output, a line per attempt; None where no loss was reported or it cannot be drawn."""
    storage = LocalStorage(result.output)
    curves = [(attempt, curve) for attempt in result.attempts if (curve := _losses(storage, attempt.number))]
    if not curves:
        return None
    path = storage.path(PICTURE)
    try:
        _draw(f"{result.job}: {result.state}", curves, path)
    except Exception as exc:  # a full disk, no memory, numbers beyond any axis: the job's end is worth more than that
        log.warning("The picture %s could not be drawn: %s", path, exc)
        return None
    return path


def _draw(title: str, curves: Sequence[tuple[AttemptSummary, list[tuple[int, float]]]], path: Path) -> None:
    from matplotlib.figure import Figure  # slow to import, and only a run that has a loss needs it

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for attempt, curve in curves:
        label = f"attempt {attempt.number}: {attempt.outcome}"
        (line,) = axes.plot([step for step, _ in curve], [loss for _, loss in curve], label=label)
        if attempt.failure is not None:
            axes.plot(*curve[-1], marker="x", color=line.get_color(), markersize=10, markeredgewidth=2)
    axes.set(title=title, xlabel="step", ylabel="loss")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def _losses(storage: LocalStorage, attempt: int) -> list[tuple[int, float]]:
    """(step, loss) as the leader reported them."""
    events = (event for event in Ledger(storage).read(attempt, LEADER) if event["event"] == Event.STEP)
    found = [(event.get("step"), event.get(LOSS)) for event in events]
    return [(step, float(loss)) for step, loss in found if isinstance(step, int) and _is_finite(loss)]


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)


def notes(result: JobResult) -> list[str]:
    """What the table leaves out, a sentence each: slices that were not to be had, and drills that came to nothing."""
    moves = [f"Attempt {a.number} ran on {a.accelerator}: {a.instead_of}." for a in result.attempts if a.instead_of]
    return moves + drills_without_effect(result)


def drills_without_effect(result: JobResult) -> list[str]:
    """A sentence for each rehearsed failure that never struck, or that its attempt outran."""
    storage = LocalStorage(result.output)
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
