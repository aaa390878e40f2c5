"""A model without JAX: it learns the mean of some numbers, half the way at each step, and is judged by others.

Its weights are `model.json` in the job's folder. Each start of it is told there too, in `starts.jsonl`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import prefect_tpu as tpu

MODEL = "model.json"
STARTS = "starts.jsonl"  # a line for each time that the program of a host began


def main(steps: int = 5, seconds: float = 0.0, fails: bool = False) -> dict[str, Any]:
    """Learn from the data `numbers`; what is there already is gone on with."""
    here = tpu.info()
    folder = Path(here.output)
    with (folder / STARTS).open("a") as file:
        file.write(json.dumps({"attempt": here.attempt, "host": here.host}) + "\n")
    if fails:
        raise ValueError("it was asked to fail")
    state = _read(folder / MODEL) or _first(here.start_from)
    wanted = _mean(here.data["numbers"])
    for step in range(state["next"], steps):
        state = {**state, "w": state["w"] + (wanted - state["w"]) / 2, "next": step + 1}
        if here.is_leader:
            _write(folder / MODEL, state)
        tpu.report(step, loss=(wanted - state["w"]) ** 2)
        time.sleep(seconds)
    return {"w": state["w"], "began_with": state["began_with"]}


def evaluate() -> dict[str, float]:
    """How far the model to start from is away from the mean of the data `numbers`."""
    here = tpu.info()
    assert here.start_from is not None, "whoever judges says what"
    state = _read(Path(here.start_from) / MODEL)
    assert state is not None, f"{here.start_from} has no model"
    return {"loss": (state["w"] - _mean(here.data["numbers"])) ** 2, "w": state["w"]}


def _first(start_from: Path | str | None) -> dict[str, Any]:
    given = _read(Path(start_from) / MODEL) if start_from is not None else None
    w = given["w"] if given is not None else 0.0
    return {"w": w, "next": 0, "began_with": w}


def _mean(path: Path) -> float:
    numbers = [float(line) for line in path.read_text().split()]
    return sum(numbers) / len(numbers)


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.exists() else None


def _write(path: Path, state: dict[str, Any]) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(state))
    temporary.replace(path)
