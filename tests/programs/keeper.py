"""A program without JAX whose leader keeps its count in sealed checkpoints, and goes on from the one its plan names."""

from __future__ import annotations

import signal
import time
from typing import Any

import prefect_tpu as tpu
from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.training.context import context

FILE = "count.json"
GO = "go"


def main(steps: int, hold_at: int) -> dict[str, Any]:
    """The sum of 0 … `steps` - 1. Before step `hold_at` it waits for a file `GO`, or until it is told to leave."""
    leaving: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: leaving.append(number))
    here = context()
    assert here is not None
    begin, total = _read(here.plan)
    for step in range(begin, steps):
        while step == hold_at and not leaving and not (tpu.info().output / GO).exists():
            time.sleep(0.02)
        if leaving:
            raise tpu.Preempted(step - 1)
        total += step
        tpu.report(step)
        if here.is_leader:
            _save(here.plan, step, total)
    return {"total": total, "began_at": begin, "attempt": here.plan.attempt}


def _read(plan: HostPlan) -> tuple[int, int]:
    if plan.restore is None:
        return 0, 0
    name = f"{layout.checkpoints(plan.restore.attempt)}/{plan.restore.step}/{FILE}"
    return plan.restore.step + 1, contract.read_json(LocalStorage(plan.output).get(name) or b"", name)["total"]


def _save(plan: HostPlan, step: int, total: int) -> None:
    storage, count = LocalStorage(plan.output), contract.write_json({"total": total})
    storage.put(f"{layout.checkpoints(plan.attempt)}/{step}/{FILE}", count)
    storage.put(layout.checkpoint_seal(plan.attempt, step), contract.write_json({"files": {FILE: len(count)}}))
