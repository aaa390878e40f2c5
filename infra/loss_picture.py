"""How did the loss go? A picture in the job's folder, a line per attempt."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TypeGuard

from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.job import AttemptSummary, JobResult
from prefect_tpu.infra.launcher.ledger import Ledger
from prefect_tpu.infra.launcher.news import Listener, News
from prefect_tpu.infra.storage import Storage, open_storage

log = logging.getLogger(__name__)
PICTURE = "loss.png"
LEADER = "host0"
LOSS = "loss"  # the metric that is drawn


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture that was drawn: the path or URL where it lies, and its bytes."""

    where: str
    png: bytes


def draw_loss(result: JobResult) -> Picture | None:
    """`loss.png` in the job's output, a line per attempt; None where no loss was reported or it cannot be drawn."""
    storage = open_storage(result.output)
    curves = [(attempt, curve) for attempt in result.attempts if (curve := _losses(storage, attempt.number))]
    if not curves:
        return None
    where = storage.where(PICTURE)
    try:
        png = _draw(f"{result.job}: {result.state}", curves)
        storage.put(PICTURE, png)
    except Exception as exc:  # a full disk, no memory, numbers beyond any axis: the job's end is worth more than that
        log.warning("The picture %s could not be drawn: %s", where, exc)
        return None
    return Picture(where=where, png=png)


def _draw(title: str, curves: Sequence[tuple[AttemptSummary, list[tuple[int, float]]]]) -> bytes:
    from matplotlib.figure import Figure  # slow to import, and only a run that has a loss needs it

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for attempt, curve in curves:
        label = f"attempt {attempt.number}: {attempt.outcome}"
        mark = "o" if len(curve) == 1 else ""  # a line of one point is not to be seen
        (line,) = axes.plot([step for step, _ in curve], [loss for _, loss in curve], label=label, marker=mark)
        if attempt.failure is not None:
            axes.plot(*curve[-1], marker="x", color=line.get_color(), markersize=10, markeredgewidth=2)
    axes.set(title=title, xlabel="step", ylabel="loss")
    axes.legend()
    axes.grid(alpha=0.3)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    return drawn.getvalue()


def _losses(storage: Storage, attempt: int) -> list[tuple[int, float]]:
    """(step, loss) as the leader reported them."""
    events = (event for event in Ledger(storage).read(attempt, LEADER) if event["event"] == Event.STEP)
    found = [(event.get("step"), event.get(LOSS)) for event in events]
    return [(step, float(loss)) for step, loss in found if isinstance(step, int) and _is_finite(loss)]


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and math.isfinite(value)
