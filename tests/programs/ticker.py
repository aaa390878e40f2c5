"""A program of the standard library alone, for pods: it counts, reports, and its sum tells a step that was left out."""

from __future__ import annotations

import signal
import time
from typing import Any

import prefect_tpu as tpu

PRIME = 2**31 - 1


def main(steps: int = 20, seconds: float = 0.1) -> dict[str, Any]:
    """Begins anew in each attempt: it keeps nothing. Told to leave, it leaves at the next step."""
    leaving: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.append(number))
    total = 1
    for step in range(steps):
        time.sleep(seconds)
        total = following(total, step)
        tpu.report(step, total=total)
        if leaving:
            raise tpu.Preempted(step)
    return {"total": total, "attempt": tpu.info().attempt}


def following(total: int, step: int) -> int:
    return (total * 31 + step * step + 7) % PRIME


def whole(steps: int) -> int:
    """What all of its steps come to."""
    total = 1
    for step in range(steps):
        total = following(total, step)
    return total
