"""Flows of these tests, as they lie in the image of the pods: they wait for signs, and tell by signs how far they are.

A flow run has a folder of its own below SIGNS, which all pods and the test see.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.runtime import flow_run

import prefect_tpu

SIGNS = Path("/signs")
LOOK_SECONDS = 0.1


class Wrong(Exception):
    """Of a person's own code."""


@task(persist_result=True)
def prepare(place: str) -> str:
    """Work that must not be done again by a run that goes on."""
    note(Path(place), "prepared")
    return "ready"


@flow(retries=1, retry_delay_seconds=0)
def train(has_region: bool = True, fails_first: bool = False) -> Any:
    """A task whose result is kept, then work that waits. fails_first: it has used its one retry by then."""
    place = folder()
    note(place, "began")
    ready = prepare(str(place))
    if fails_first and not (place / "failed").exists():
        (place / "failed").touch()
        raise Wrong("the first try, and Prefect tries again in this process")
    return work_on(has_region, place, ready)


@flow
def once(has_region: bool = False, end: str = "return", host: int = 0) -> Any:
    """Work that waits and then ends in some way, on one host of a region."""
    place = folder()
    note(place, "began")
    return work_on(has_region, place, "ready", end, host)


def work_on(has_region: bool, place: Path, *rest: Any) -> Any:
    if not has_region:
        return work(str(place), *rest)
    return prefect_tpu.every_host(work)(str(place), *rest)


def work(place: str, ready: str, end: str = "return", host: int = 0) -> str:
    """On each host of a region, or in the flow itself."""
    here = prefect_tpu.info()
    (Path(place) / f"up-{here.attempt}-{here.host}").touch()
    while not (Path(place) / "go").exists():
        time.sleep(LOOK_SECONDS)
    if here.host == host:
        ENDS[end]()
    return ready


def fail() -> None:
    raise Wrong("the program's own mistake")


def eat() -> None:
    """More memory than a machine has, until somebody stops it."""
    eaten = []
    while True:
        eaten.append(bytearray(64 << 20))


ENDS = {
    "return": lambda: None,
    "raise": fail,
    "memory": eat,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "137": lambda: os._exit(137),
}


def folder() -> Path:
    """Of this run."""
    found = SIGNS / str(flow_run.get_id())
    found.mkdir(parents=True, exist_ok=True)
    return found


def note(place: Path, word: str) -> None:
    with (place / word).open("a") as file:
        file.write(f"{os.environ.get('PREFECT_TPU_ATTEMPT', '')}\n")
