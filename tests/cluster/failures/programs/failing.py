"""Programs that end in each way in which a program of its own can; only those that join import JAX."""

from __future__ import annotations

import time
from pathlib import Path

import prefect_tpu as tpu

LOOK_SECONDS = 0.05


def raises(strike: str) -> None:
    """On host 1, once it is told to; the others wait."""
    _wait_for(strike)
    if tpu.info().host == 1:
        raise ValueError("the learning rate is not a number")
    time.sleep(600)


def uses_up_memory(strike: str) -> None:
    """An array that no machine has room for."""
    import jax.numpy as jnp

    _wait_for(strike)
    if tpu.info().host == 1:
        jnp.zeros((2**44,), dtype=jnp.float32).block_until_ready()
    time.sleep(600)


def stands_still(strike: str) -> str:
    """Steps, until it is told to stop making them; whoever comes after the first attempt has nothing to do."""
    if tpu.info().attempt > 1:
        return "done"
    _be_there(strike)
    step = 0
    while not Path(strike).exists():
        tpu.report(step)
        step += 1
        time.sleep(0.2)
    while True:
        time.sleep(60)


def does_not_join(strike: str) -> None:
    """Host 1 never comes; in the first attempt only."""
    if tpu.info().attempt == 1:
        _wait_for(strike)
        if tpu.info().host == 1:
            time.sleep(600)
        tpu.join()


def joins(strike: str) -> None:
    """Asks for the chips of its slice."""
    _wait_for(strike)
    tpu.join()


def _wait_for(strike: str) -> None:
    _be_there(strike)
    while not Path(strike).exists():
        time.sleep(LOOK_SECONDS)


def _be_there(strike: str) -> None:
    place = Path(strike)
    place.with_name(f"{place.name.replace('strike', 'up')}-{tpu.info().host}").touch()
