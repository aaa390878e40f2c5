"""What do single calls take? Programs of a job that measure `report` and `checkpoints.save` from inside."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from program import training

import prefect_tpu as tpu

STEP_SECONDS = 0.05
FOREVER, AT_ONCE = 3600.0, 1e-6


def own_time(blocks: int, steps: int) -> list[float]:
    """Seconds that a report and a save take at the mean of each block of steps, where nothing is due."""
    tpu.join()
    import jax.numpy as jnp

    with tpu.checkpoints(every=FOREVER) as checkpoints:
        state, _ = checkpoints.restore({"loss": jnp.ones(()).block_until_ready()})

        def both(step: int) -> None:
            tpu.report(step, loss=state["loss"])
            checkpoints.save(step, state)

        return _taken(both, blocks, steps)


def guards(blocks: int, steps: int) -> list[float]:
    """The same of an agreement on three values, one of which is computed on the chips."""
    tpu.join()
    import jax.numpy as jnp

    loss = jnp.ones(()).block_until_ready()
    return _taken(lambda step: tpu.agree(step, rows=[32, 8], rate=0.1, loss=loss), blocks, steps)


def barriers(blocks: int, steps: int) -> list[float]:
    """The same of a barrier."""
    tpu.join()
    return _taken(lambda step: tpu.barrier("step"), blocks, steps)


def _taken(call: Callable[[int], None], blocks: int, steps: int) -> list[float]:
    """Seconds of a call at the mean of each block of steps."""
    found = []
    for block in range(blocks + 1):
        taken = 0.0
        for step in range(block * steps, (block + 1) * steps):
            time.sleep(STEP_SECONDS)
            began = time.perf_counter()
            call(step)
            taken += time.perf_counter() - began
        found.append(taken / steps)
    return found[1:]  # in the first block things are used for the first time


def saves(count: int, width: int, ballast: int) -> float:
    """Seconds from one save to the next at the mean, where each waits until the one before is whole on disk."""
    tpu.join()
    state: Any = training(tpu.mesh(), width, ballast).state
    with tpu.checkpoints(every=AT_ONCE) as checkpoints:
        state, _ = checkpoints.restore(state)
        checkpoints.save(0, state)
        began = time.perf_counter()
        for step in range(1, count + 1):
            checkpoints.save(step, state)
        return (time.perf_counter() - began) / count
