"""Flows without Prefect: what a command does on the leader of a slice, by regions; `python flows.py NAME`."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # as Prefect does, which loads a flow by its file

import sibling  # noqa: E402

import prefect_tpu as tpu  # noqa: E402

WITHHELD = ("PREFECT_API_KEY", "PREFECT__FLOW_RUN_ID", "PREFECT_TPU_REGION_KEY", "PREFECT_RESULTS_SECRET")


class Refused(ValueError):
    """An error of the program's own."""


def folder() -> Path:
    """The job's."""
    return Path(tpu.info().output)


def keep(value: Any) -> None:
    """What the flow found, for the test to read."""
    (folder() / "found.json").write_text(json.dumps(value))


def where(word: str) -> dict[str, Any]:
    """What a region sees."""
    here = tpu.info()
    return {
        "word": f"{word} {sibling.WORD}",
        "host": here.host,
        "hosts": here.hosts,
        "pid": os.getpid(),
        "port": os.environ["MASTER_PORT"],
        "rank": os.environ["RANK"],
        "seen": [name for name in WITHHELD if name in os.environ],
        "url": os.environ.get("PREFECT_API_URL"),
    }


def refuse(host: int) -> None:
    """Raises on one host, while the others would go on for long."""
    if tpu.info().host == host:
        raise Refused("no such day")
    time.sleep(600)


def leave(code: int) -> None:
    sys.exit(code)


def nested() -> None:
    tpu.every_host(where)("inside")


def said(call: Any, *arguments: Any) -> list[str]:
    """What calling it raises: the class, what it says, and its notes."""
    try:
        call(*arguments)
    except Exception as exc:
        cause = type(exc.__cause__).__name__ if exc.__cause__ else ""
        return [type(exc).__name__, str(exc), cause, *getattr(exc, "__notes__", ())]
    return ["nothing"]


def regions() -> None:
    """Several, one after another and at once, that return and that fail."""
    logging.basicConfig(level=logging.INFO)
    found = {"env": {name: os.environ.get(name) for name in ("RANK", *WITHHELD)}, "started": time.monotonic()}
    found["first"] = tpu.every_host(where, gather=True)("one")
    found["second"] = tpu.every_host(where)("two")
    with ThreadPoolExecutor(2) as pool:
        found["at once"] = [value["host"] for value in pool.map(tpu.every_host(where), ("three", "four"))]
    found["raised"] = said(tpu.every_host(refuse), 1)
    found["left"] = said(tpu.every_host(leave), 3)
    found["nested"] = said(tpu.every_host(nested))
    found["lock"] = said(tpu.every_host(where), threading.Lock())
    found["after"] = tpu.every_host(where)("five")["word"]
    found["joined"] = said(tpu.join)
    found["jax"] = subprocess.run(
        [sys.executable, "-c", "import jax; jax.devices()"], capture_output=True, text=True
    ).stderr
    keep(found)


def code() -> None:
    """Ends as a command that failed, after a region that did not."""
    tpu.every_host(where)("one")
    sys.exit(3)


def wait() -> None:
    """On every host, until it is told to go on or ends."""
    here = folder() / "waits" / f"{tpu.info().attempt}-{tpu.info().host}"
    here.parent.mkdir(exist_ok=True)
    here.write_text(str(os.getpid()))
    while not (folder() / "go").exists():
        time.sleep(0.02)


def waits() -> None:
    """A region that waits; what comes after it, or instead of it, is noted."""
    notes = folder() / "notes"
    try:
        tpu.every_host(wait)()
        with notes.open("a") as file:
            file.write(f"returned in {tpu.info().attempt}\n")
    except BaseException as exc:
        with notes.open("a") as file:
            file.write(f"{exc!r} in {tpu.info().attempt}\n")
        raise


def save_late() -> None:
    """Told to leave, one host of the first attempt saves until the leader's is over."""
    here = tpu.info()
    if here.attempt > 1:
        return
    is_told = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_told.set())
    place = folder() / "waits" / f"{here.attempt}-{here.host}"
    place.parent.mkdir(exist_ok=True)
    place.write_text(str(os.getpid()))
    is_told.wait()
    if here.host == 1:
        while not (folder() / "attempts" / "1" / "hosts" / "0" / "record.json").exists():
            time.sleep(0.02)
        (folder() / "saved").write_text("all of it")
    raise tpu.Preempted("saved")


def saves() -> None:
    """A region that takes its time to leave."""
    tpu.every_host(save_late)()


def train(word: str) -> dict[str, Any]:
    """Saves each step; where it is to be preempted, it makes steps until it is."""
    import jax
    import numpy as np

    tpu.join()
    devices = jax.sharding.Mesh(np.asarray(jax.devices()), ("data",))
    spread = jax.sharding.NamedSharding(devices, jax.sharding.PartitionSpec("data"))
    state = {"numbers": jax.make_array_from_process_local_data(spread, np.zeros(1, np.float32))}
    with tpu.checkpoints(every=1e-6) as checkpoints:
        state, start = checkpoints.restore(state)
        last = 10**6 if word == "long" and tpu.info().attempt == 1 else start + 2
        for step in range(start, last):
            state = {"numbers": state["numbers"] + 1}
            tpu.report(step)
            checkpoints.save(step, state)
            (folder() / f"trains-{word}").write_text(str(step))
    total = jax.jit(lambda numbers: numbers.sum())(state["numbers"])
    return {"start": start, "total": float(total), "devices": jax.device_count()}


def trains() -> None:
    """Two regions of one function; the second is preempted in the first attempt."""
    keep([tpu.every_host(train)("short"), tpu.every_host(train)("long")])


def guarded(word: str) -> dict[str, int]:
    """Steps that all hosts say and do alike, or one of them does not."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    tpu.join()
    mesh, here = tpu.mesh(), tpu.info()
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    array = jax.make_array_from_process_local_data(rows, np.full(2, here.host, np.float32))
    for step in range(4):
        if (word, step, here.host) == ("differs", 2, 1):
            continue  # the other waits for this host in its last step
        tpu.agree(step, batch=32)
        multihost_utils.process_allgather(np.zeros(1))
        tpu.report(step)
    if (word, here.host) == ("misses", 1):
        time.sleep(600)
    tpu.barrier("trained", timeout=1 if word == "misses" else 60)
    tpu.leader_print("printed once", word)
    tpu.show(array, name="shown", whole=True)
    return dict(mesh.shape)


def guards() -> None:
    """Regions under guard: all is well; a host comes to no barrier; one leaves a step out; and all is well again."""
    found: dict[str, Any] = {"alike": tpu.every_host(guarded, gather=True)("alike")}
    found["misses"] = said(tpu.every_host(guarded), "misses")
    found["differs"] = said(tpu.every_host(guarded), "differs")
    found["after"] = tpu.every_host(guarded)("again")
    found["in the flow"] = said(tpu.barrier, "trained")
    keep(found)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
