"""Programs that stand still or end, each in its own way. Hosts without JAX wait for each other by files."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from pathlib import Path

import prefect_tpu as tpu

LOOK_SECONDS = 0.02
STEP_SECONDS = 0.4  # longer than the pause between two reports that are written


def together(steps: int, still_at: int | None = None, host: int = 0) -> int:
    """Steps that all hosts do together, reported as JAX's are before they are computed.

    From step `still_at` on one of them stands still, in the first attempt only.
    """
    here = tpu.info()
    meet(here, -1)
    for step in range(steps):
        if step == still_at and here.host == host and here.attempt == 1:
            stand_still()
        tpu.report(step)
        meet(here, step)
        time.sleep(STEP_SECONDS)
    return steps


def meet(here: tpu.Info, step: int) -> None:
    folder = here.output / "met" / str(here.attempt)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{step}-{here.host}").touch()
    while not all((folder / f"{step}-{other}").exists() for other in range(here.hosts)):
        time.sleep(LOOK_SECONDS)


def stand_still() -> None:
    """Deaf to every notice."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


def leader_reports(seconds: float) -> str:
    """Only the leader reports, and long after the others' last sign of life."""
    tpu.report(0)
    give_up = time.monotonic() + seconds
    step = 0
    while time.monotonic() < give_up:
        time.sleep(0.2)
        if tpu.info().is_leader:
            step += 1
            tpu.report(step)
    return "done"


def never_reports(seconds: float) -> str:
    """Gives no sign by which it could be missed."""
    time.sleep(seconds)
    return "done"


def compiles(seconds: float) -> str:
    """A function whose compilation takes long, between two steps: one operation of it is slow to lower."""
    tpu.join()
    import jax
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    def lower(context: object, x: object) -> list[object]:
        time.sleep(seconds)
        return [x]

    slow = Primitive("slow")
    slow.def_abstract_eval(lambda x: x)
    mlir.register_lowering(slow, lower)
    tpu.report(0)
    jax.jit(slow.bind)(1.0).block_until_ready()
    tpu.report(1)
    return "done"


def does_not_join(host: int, seconds: float) -> None:
    """All but one host wait for the others."""
    if tpu.info().host == host:
        time.sleep(seconds)
    tpu.join()


def finds_other_devices(devices: int) -> None:
    """As if something else had the rest of the slice."""
    import jax

    jax.config.update("jax_num_cpu_devices", devices)
    tpu.join()


def leaves_a_thread() -> str:
    """It has returned, and something of it never will."""
    threading.Thread(target=stand_still_quietly, name="uploader").start()
    atexit.register(Path("handler-ran").touch)
    return "returned"


def stand_still_quietly() -> None:
    while True:
        time.sleep(60)


def leaves(how: str) -> None:
    """Each way to leave that is none of returning or raising."""
    if how == "code":
        sys.exit(3)
    if how == "text":
        sys.exit("no data for this day")
    os._exit(4)


def returns_no_number() -> dict[str, float]:
    return {"loss": float("nan"), "steps": 3}


def returns_a_lock() -> object:
    return threading.Lock()
