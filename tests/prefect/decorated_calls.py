"""Flows on slices as a person writes them, in one file, and what that person does with them.

`python decorated_calls.py WHAT FOLDER` does one thing and writes what came of it as JSON. Flows tell how far they are
by files in the folder, and wait there for a sign.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from prefect import flow, get_client, task
from prefect.runtime import flow_run

import prefect_tpu

POOL = os.environ.get("POOL", "slices")
on_slice = prefect_tpu.tpu_slice(POOL, accelerator="cpu-2x1", max_preemptions=2, grace=5)


class Wrong(Exception):
    """Of a person's own code."""


@task(persist_result=True)
def prepare(folder: str) -> int:
    note(folder, "prepared")
    return 20


def note(folder: str, what: str) -> None:
    """Add a line to what the flow says of itself: what, its process, and the run's count."""
    with Path(folder, "notes").open("a") as file:
        file.write(f"{what} {os.getpid()} {flow_run.run_count}\n")


@on_slice
@flow
def add(number: int, other: int = 2) -> int:
    return number + other


@on_slice
@flow
def hold(folder: str) -> int:
    """Works until there is a sign to go on."""
    ready = prepare(folder)
    note(folder, "began")
    while not Path(folder, "go").exists():
        time.sleep(0.05)
    return ready + 2


@prefect_tpu.tpu_slice(POOL, accelerator="cpu-2x1", max_preemptions=0)
@flow
def give_up(folder: str) -> int:
    """As `hold`, with no second attempt."""
    return hold.fn(folder)


@on_slice
@flow
def fail_once(folder: str) -> int:
    ready = prepare(folder)
    if not Path(folder, "failed").exists():
        Path(folder, "failed").touch()
        raise Wrong("the first time")
    return ready + 2


@prefect_tpu.tpu_slice(POOL, accelerator="cpu-2x1", include_files=["brought/*.txt"])
@flow
def read_brought() -> str:
    return Path("brought/word.txt").read_text()


@flow
def parent() -> int:
    return sum(run.result() for run in [add.submit(1), add.submit(2)])


def everywhere(number: int) -> list[int]:
    """What each host knows of the slice."""
    import jax

    prefect_tpu.join()
    return [jax.process_index(), jax.device_count(), number]


@on_slice
@flow
def region(number: int) -> list[list[int]]:
    return prefect_tpu.every_host(everywhere, gather=True)(number)


def call(folder: str) -> Any:
    return add(40)


def state(folder: str) -> Any:
    return add(40, return_state=True).type.value


def leave(folder: str) -> Any:
    """Begins and does not wait."""
    return str(hold.submit(folder).flow_run_id)


def leave_to_worker(folder: str) -> Any:
    return add.submit_to_work_pool(40).result()


def wait(folder: str) -> Any:
    return hold(folder)


def wait_once(folder: str) -> Any:
    return give_up(folder)


def wrong(folder: str) -> Any:
    return fail_once(folder)


def again(folder: str) -> Any:
    """A run that failed is run once more, and keeps what it had prepared."""
    run = fail_once.submit(folder)
    run.wait()
    before = run.state.type.value

    async def retry() -> Any:
        async with get_client() as client:
            return await fail_once.retry(await client.read_flow_run(run.flow_run_id))

    return [str(run.flow_run_id), before, asyncio.run(retry())]


def bring(folder: str) -> Any:
    return read_brought()


def child(folder: str) -> Any:
    return parent()


def on_every_host(folder: str) -> Any:
    return region(7)


def misspelt(folder: str) -> Any:
    return prefect_tpu.tpu_slice(POOL, of_ours=1)(parent)()


def outcome(what: str, folder: str) -> dict[str, Any]:
    try:
        return {"value": globals()[what](folder)}
    except KeyboardInterrupt:
        return {"error": "KeyboardInterrupt"}
    except Exception as exc:
        return {"error": type(exc).__name__, "message": str(exc)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(outcome(*sys.argv[1:])) + "\n")
