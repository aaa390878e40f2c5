"""A program without JAX: it counts, keeps a state file of its own, and proves that no two attempts live at once."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import prefect_tpu as tpu

FOLDER = "counter"  # in the job's folder, so that every attempt finds it
OVERLAPS = "overlaps"  # a line for each other attempt that was found alive
GO = "go"
LOOK_SECONDS = 0.02
LIVES = "lives.jsonl"  # a line when a host's program begins and one when it leaves by itself


def main(
    steps: int = 20, seconds: float = 0.05, fail_at: int | None = None, hold_at: int | None = None
) -> dict[str, Any]:
    """The sum of 0 … `steps` - 1, a step each `seconds`; every host counts alike and keeps its state at each step.

    Before step `hold_at`, and each after it, it waits until it is told to go on (a file `GO` in its folder) or to
    leave: so does an attempt that goes on behind it.
    """
    leaving: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.append(number))
    here = tpu.info()
    folder = here.output / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / f"state-{here.host}.json"
    with living(folder, here):
        begin, total = _read(state)
        for step in range(begin, steps):
            time.sleep(seconds)
            while hold_at is not None and step >= hold_at and not leaving and not (folder / GO).exists():
                time.sleep(LOOK_SECONDS)
            if step == fail_at:
                raise ValueError(f"step {step} was asked to fail")
            total += step
            _write(state, step + 1, total)
            tpu.report(step, loss=1.0 / (step + 1))
            if leaving:
                raise tpu.Preempted(step)
    return {"total": total, "attempt": here.attempt, "began_at": begin}


def _read(state: Path) -> tuple[int, int]:
    if not state.exists():
        return 0, 0
    data = json.loads(state.read_text())
    return data["next"], data["total"]


def _write(state: Path, following: int, total: int) -> None:
    temporary = state.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps({"next": following, "total": total}))
    os.replace(temporary, state)


@contextmanager
def living(folder: Path, here: Any) -> Iterator[None]:
    """Hold a lock named after this host of this attempt for life: the kernel lets go of it at any death.

    First the own lock, then a look at all others: of two attempts that live at
    once at least one sees the other.
    """
    with (folder / f"{here.attempt}-{here.host}.lock").open("w") as own:
        fcntl.flock(own, fcntl.LOCK_EX)
        for path in folder.glob("*.lock"):
            if not path.name.startswith(f"{here.attempt}-") and _is_held(path):
                _append(folder / OVERLAPS, f"attempt {here.attempt} host {here.host} found {path.stem} alive")
        _append(folder / LIVES, json.dumps({"attempt": here.attempt, "host": here.host, "event": "began"}))
        try:
            yield
        finally:
            _append(folder / LIVES, json.dumps({"attempt": here.attempt, "host": here.host, "event": "left"}))


def _is_held(path: Path) -> bool:
    with path.open() as lock:
        return not _share(lock)


def _share(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:  # short lines in append mode arrive whole
        file.write(line + "\n")
