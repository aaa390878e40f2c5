"""A user's script of decorated functions: calls them all, and leaves what came of each in a file."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from prefect import flow
from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

import prefect_tpu


class Wrong(Exception):
    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


class Fragile(Exception):
    """Comes back from no pickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Model:
    factor = 3

    @prefect_tpu.run(accelerator="cpu")
    def fit(self, steps: int) -> int:
        return self.factor * steps


@prefect_tpu.run(accelerator="cpu-2x1", name="named")
def total(numbers: Any, *more: int, weight: float = 1.0) -> tuple[float, str, int]:
    return scaled(float(numbers.sum()) + sum(more), weight), uuid.uuid4().hex, prefect_tpu.info().host


def scaled(number: float, weight: float) -> float:
    return number * weight


@prefect_tpu.run(accelerator="cpu-2x1", gather=True)
def host_and(word: str) -> list[Any]:
    return [prefect_tpu.info().host, word]


@prefect_tpu.run
def fails(error: BaseException) -> None:
    raise error  # as it was sent


@prefect_tpu.run
def fails_fragile() -> None:
    raise Fragile(1, 2)


@prefect_tpu.run
def leaves() -> None:
    sys.exit(3)


@flow
def outer() -> int:
    return Model().fit(2)


async def in_loop() -> int:
    return Model().fit(5)


def outcome(function: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    try:
        return {"value": function(*args, **kwargs)}
    except Exception as exc:
        cause = type(exc.__cause__).__name__
        text = {"message": str(exc), "notes": getattr(exc, "__notes__", []), "cause": cause}
        return {"error": type(exc).__name__, "code": getattr(exc, "code", None), **text}


def main(place: str) -> None:
    found = {
        "total": outcome(total, np.arange(4), 1, 2, weight=2.0),
        "again": outcome(total, np.arange(4), 1, 2, weight=2.0),
        "other": outcome(total, np.arange(5), 1, 2, weight=2.0),
        "gather": outcome(host_and, "a"),
        "wrong": outcome(fails, Wrong(7)),
        "fragile": outcome(fails_fragile),
        "exit": outcome(leaves),
        "flow": outcome(outer),
        "loop": outcome(lambda: asyncio.run(in_loop())),
    }
    Path(place).write_text(json.dumps(found))


if __name__ == "__main__":
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):  # every run's end would wait for its thread
        main(sys.argv[1])
