"""Hosts for test_guards.py that do not do the same: `python guarded_program.py CASE KEYWORDS`, outcome in $OUTCOME."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import training_program  # noqa: E402

import prefect_tpu as tpu  # noqa: E402


def together():
    """Waits for the others in a collective."""
    import numpy as np
    from jax.experimental import multihost_utils

    multihost_utils.process_allgather(np.zeros(1))


def differs(value_at=None, returns_at=None, steps=6, odd=1):
    """Host `odd` says another batch at a step, or returns, while the others wait in a collective."""
    tpu.join()
    odd_one = tpu.info().host == odd
    for step in range(steps):
        if odd_one and step in (value_at, returns_at):
            sys.stdout.write(f"parted at {time.time()}\n")
            sys.stdout.flush()
        if odd_one and step == returns_at:
            return {"returned": step}
        tpu.agree(step, batch=[16 if odd_one and step == value_at else 32, 8])
        if odd_one and step == value_at:
            time.sleep(60)  # the others wait for this host; it is ended before
        together()
    return {"steps": steps}


def misses_a_barrier(timeout=1.0):
    tpu.join()
    tpu.barrier("all")
    tpu.agree(3)
    if tpu.info().host == 1:
        time.sleep(4 * timeout)
        return {"missed": True}
    began = time.monotonic()
    try:
        tpu.barrier("evaluated", timeout=timeout)
    except tpu.HostsMissing as exc:
        found = {"hosts": list(exc.hosts), "message": str(exc), "seconds": time.monotonic() - began}
        time.sleep(3 * timeout)  # JAX's coordinator ends with this host
        return found
    return {}


def join():
    tpu.join()
    return {}


def reports_steps(steps, late):
    """Steps that all hosts do together; host 1 comes late to each. What they hold is shown then."""
    tpu.join()
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    rows = NamedSharding(tpu.mesh(), PartitionSpec("data"))
    table = np.arange(4.0, dtype=np.float32)
    array = jax.make_array_from_callback((4,), rows, lambda where: table[where])
    advance = jax.jit(lambda state: (state * 0.5 + state.mean(), jnp.mean(state)))
    shape = (jax.device_count(), 64, 64)  # the smallest computations a CPU does in the call itself, which then waits
    state = jax.make_array_from_callback(shape, rows, lambda where: np.ones(shape, np.float32)[where])
    for step in range(steps):
        time.sleep(late * tpu.info().host)
        state, loss = advance(state)
        tpu.report(step, loss=loss)
    tpu.leader_print("the leader alone", array)
    tpu.show(array, name="mine")
    tpu.show({"weights": array}, name="all", whole=True)
    return {}


if __name__ == "__main__":
    training_program.main(globals())
