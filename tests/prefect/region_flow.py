"""A flow of a deployment, with a persisted task and a region that waits until it is told to go on."""

from __future__ import annotations

import os
import time
from pathlib import Path

from prefect import flow, task

import prefect_tpu as tpu

FACTOR = 2  # of this module, which the region's hosts have from the flow alone


@task(persist_result=True)
def prepare(folder: str) -> int:
    """Leaves a line each time it runs."""
    with Path(folder, "prepared").open("a") as file:
        file.write(f"{tpu.info().attempt}\n")
    return 21


def part(folder: str, number: int) -> int:
    """On every host."""
    here = tpu.info()
    Path(folder, f"waits-{here.attempt}-{here.host}").write_text(str(os.getpid()))
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    return number * FACTOR + here.host


@flow(persist_result=True)
def regional(folder: str) -> list[int]:
    return tpu.every_host(part, gather=True)(folder, prepare(folder))
