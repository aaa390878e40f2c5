"""A program without JAX for the trials of a sweep: it gets better with each step, and says when it lived.

Its value is known beforehand, and what is done twice is seen: each start and each end is a line.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import prefect_tpu as tpu

LIVES = "lives.jsonl"  # in the job's folder: a line when the program begins and one when it leaves by itself
AT_ONCE = "at_once"  # beside the jobs: a line for each start, with how many trials lived then
STATE = "next"  # in the job's folder: the step to go on with
GO = "go"  # beside the jobs: programs that hold go on
LOOK_SECONDS = 0.02


def main(
    x: float, steps: int = 10, seconds: float = 0.02, hold_at: int | None = None, fail: bool = False
) -> dict[str, Any]:
    """`(x - 3)²` at the end, and more before. Before step `hold_at` it waits for the file `GO`."""
    leaving: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.append(number))
    here = tpu.info()
    with (here.output / "living.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _append(here.output / LIVES, {"attempt": here.attempt, "event": "began"})
        _append(here.output.parent / AT_ONCE, {"job": here.job, "living": _living(here.output.parent)})
        for step in range(_begin(here.output), steps):
            time.sleep(seconds)
            while hold_at is not None and step >= hold_at and not leaving and not (here.output.parent / GO).exists():
                time.sleep(LOOK_SECONDS)
            _keep(here.output, step + 1)
            tpu.report(step, loss=value(x) + steps - 1 - step)
            if leaving:
                raise tpu.Preempted(step)
        if fail:
            raise ValueError("this trial was asked to fail")
        _append(here.output / LIVES, {"attempt": here.attempt, "event": "left"})
    return {"loss": value(x), "x": x}


def value(x: float) -> float:
    return (x - 3) ** 2


def _begin(folder: Path) -> int:
    path = folder / STATE
    return int(path.read_text()) if path.exists() else 0


def _keep(folder: Path, following: int) -> None:
    temporary = folder / f"{STATE}.{os.getpid()}"
    temporary.write_text(str(following))
    os.replace(temporary, folder / STATE)


def _living(output: Path) -> int:
    """How many trials hold their lock: the kernel lets go of it at any death."""
    return sum(_is_held(path) for path in output.glob("*/living.lock"))


def _is_held(path: Path) -> bool:
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a") as file:  # short lines in append mode arrive whole
        file.write(json.dumps(line) + "\n")
