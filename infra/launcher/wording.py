"""How is it said in one line how far a program is, how an attempt ended, and how many? The same wherever it is read."""

from __future__ import annotations

from collections.abc import Mapping

from prefect_tpu.infra.contract import Progress
from prefect_tpu.infra.errors import Failure


def progress_in_words(progress: Progress, total: int | None = None) -> str:
    """`step 41, loss 0.31, step 40 saved`, of a total `42 of 60 steps, …`; empty where there was no report.

    Steps count from 0, so that those that are done are one more than the last, and at the end all of them.
    """
    if progress.step is None:
        return ""
    step = f"step {progress.step}" if total is None else f"{min(progress.step + 1, total)} of {total} steps"
    saved = "nothing saved yet" if progress.saved_step is None else f"step {progress.saved_step} saved"
    return ", ".join(filter(None, [step, metrics_in_words(progress.metrics), saved]))


def metrics_in_words(metrics: Mapping[str, float]) -> str:
    """`loss 0.31, accuracy 0.9`, in the program's own order."""
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())


def end_in_words(cause: Failure | None) -> str:
    """Of an attempt. The message names the host where that matters."""
    return "ended with its result" if cause is None else f"{cause.kind}: {cause.message}"


def counted(number: int, word: str) -> str:
    """`1 host`, `4 hosts`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
