"""How did the trials go? A table, and a picture of their values."""

from __future__ import annotations

import io
from itertools import accumulate
from typing import Any

from prefect_tpu.infra.summary import as_url, linked
from prefect_tpu.infra.sweep.result import SweepResult, TrialResult

NO_VALUE = ""


def rows(result: SweepResult) -> list[dict[str, Any]]:
    """One row per trial, the best first and those without a value last; its keys are the columns."""
    sign = 1.0 if result.mode == "min" else -1.0
    order = sorted(result.trials, key=lambda trial: (*_rank(trial), sign * (trial.value or 0.0), trial.number))
    return [_row(trial, result.metric) for trial in order]


def _rank(trial: TrialResult) -> tuple[int, bool]:
    return ("complete", "pruned", "failed").index(trial.state), trial.value is None


def _row(trial: TrialResult, metric: str) -> dict[str, Any]:
    return {
        "trial": trial.number,
        "state": trial.state,
        metric: NO_VALUE if trial.value is None else f"{trial.value:.6g}",
        **{f"params.{name}": str(value) for name, value in trial.params.items()},
        "steps": trial.steps,
        "accelerator": trial.accelerator,
        "chips": trial.chips,
        "job": trial.job,
    }


def markdown(result: SweepResult, picture: bytes) -> str:
    """What the sweep has found, with the picture as PNG."""
    params = ", ".join(f"{name} = `{value}`" for name, value in result.params.items())
    lines = [
        f"**Trial {result.best}: {result.metric} {result.value:.6g}** of {len(result.trials)} trials · {params}",
        f"Output: {linked(result.output)}",
        f"Checkpoint: {linked(result.checkpoint)}" if result.checkpoint else "It saved no checkpoint.",
        f"![Trials]({as_url(picture)})",
    ]
    return "\n\n".join(lines) + "\n"


def draw(result: SweepResult) -> bytes:
    """The values by trial, and the best so far, as PNG."""
    from matplotlib.figure import Figure  # slow to import, and only a sweep's end needs it

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for state, marker in (("complete", "o"), ("pruned", "x")):
        numbers, values = _values(result, state)
        if numbers:
            axes.plot(numbers, values, marker, label=state)
    numbers, values = _values(result, "complete")
    better = min if result.mode == "min" else max
    axes.step(numbers, list(accumulate(values, better)), where="post", label="best so far")
    axes.set(title=f"Sweep {result.sweep}", xlabel="trial", ylabel=result.metric)
    axes.legend()
    axes.grid(alpha=0.3)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=120)
    return drawn.getvalue()


def _values(result: SweepResult, state: str) -> tuple[list[int], list[float]]:
    found = [(t.number, t.value) for t in result.trials if t.state == state and t.value is not None]
    return [number for number, _ in found], [value for _, value in found]
