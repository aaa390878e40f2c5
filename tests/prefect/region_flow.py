"""Flows of deployments, with tasks whose results are kept and regions, some of which wait until they are told to go on.

Each part leaves a line each time it runs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from prefect import flow, task
from prefect.cache_policies import INPUTS

import prefect_tpu as tpu

FACTOR = 2  # of this module, which the region's hosts have from the flow alone


def note(folder: str, what: str) -> None:
    with Path(folder, what).open("a") as file:
        file.write(f"{tpu.info().attempt}\n")


@task(persist_result=True)
def prepare(folder: str) -> int:
    note(folder, "prepared")
    return 21


@task(persist_result=True, cache_policy=INPUTS)
def measure(folder: str, number: int) -> int:
    """What is asked of it a second time it has in its cache, whoever asks."""
    note(folder, "measured")
    return number + 1


def part(folder: str, number: int) -> int:
    """On every host."""
    here = tpu.info()
    Path(folder, f"waits-{here.attempt}-{here.host}").write_text(str(os.getpid()))
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    return number * FACTOR + here.host


def tell(folder: str, number: int) -> int:
    """The same at once."""
    here = tpu.info()
    note(folder, f"told-{here.host}")
    return number * FACTOR + here.host


@task(persist_result=True)
def told(folder: str, number: int) -> list[int]:
    return tpu.every_host(tell, gather=True)(folder, number)


@task(persist_result=True)
def waited(folder: str, number: int) -> list[int]:
    return tpu.every_host(part, gather=True)(folder, number)


@flow(persist_result=True)
def regional(folder: str) -> list[int]:
    return tpu.every_host(part, gather=True)(folder, prepare(folder))


@flow(persist_result=True)
def first(folder: str) -> list[int]:
    """Has ended when the slice is lost."""
    note(folder, "first")
    return told(folder, measure(folder, 20))


@flow(persist_result=True)
def second(folder: str) -> list[int]:
    """Is in its region when the slice is lost, behind a region that is not to be there again."""
    note(folder, "second")
    return [*told(folder, measure(folder, 20) + 1), *waited(folder, measure(folder, 20))]


@flow(persist_result=True)
def nested(folder: str) -> list[int]:
    values = [*first(folder), *second(folder)]
    Path(folder, "values").write_text(" ".join(map(str, values)))
    return values
