"""What the bench trains, twice: as a program of a job, and bare, with JAX and Orbax alone.

`main` is the job's. `python program.py JSON` is the same training as a bare
process, which finds the others by the environment that `bare.py` sets.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

LAYERS, ROWS = 6, 256  # of the network; rows of its input per device
STEPS_FILE = "steps"  # a line a step by the leader: time, process, step
LATE = 10  # steps until the speed of a step is its usual one


class Training(NamedTuple):
    """A state, the step that changes it, and the mesh's two placements in one."""

    state: Any
    step: Callable[[Any], tuple[Any, Any]]


def main(steps: int, width: int, folder: str, ballast: int = 1, every: float | None = None) -> dict[str, Any]:
    """Train `steps` steps in a job. `ballast`: MiB of state beside the weights. `every`: seconds between saves."""
    import prefect_tpu as tpu

    tpu.join()
    made = training(tpu.mesh(), width, ballast)
    watch = Watch(Path(folder), is_leader=tpu.info().is_leader)
    with tpu.checkpoints(every=every) as checkpoints:
        state, start = checkpoints.restore(made.state)
        for step in range(start, steps):
            state, loss = made.step(state)
            watch.done(step, loss)
            tpu.report(step, loss=loss)
            checkpoints.save(step, state)
            watch.saved()
    return watch.summary()


def bare(steps: int, width: int, folder: str, ballast: int = 1) -> None:
    """The same without anything of ours: JAX finds its peers, Orbax keeps the last step."""
    import jax

    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    import orbax.checkpoint as ocp  # type: ignore[import-untyped]

    made = training(jax.make_mesh((jax.device_count(),), ("data",)), width, ballast)
    watch = Watch(Path(folder), is_leader=jax.process_index() == 0)
    with ocp.CheckpointManager(Path(folder, "checkpoints").absolute()) as manager:
        state, start = made.state, 0
        if (last := manager.latest_step()) is not None:
            state, start = manager.restore(last, args=ocp.args.StandardRestore(state)), last + 1
        for step in range(start, steps):
            state, loss = made.step(state)
            watch.done(step, loss)
        manager.save(steps - 1, args=ocp.args.StandardSave(state))


def training(mesh: Any, width: int, ballast: int) -> Training:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    rows, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    shape = (ROWS * jax.device_count(), width)
    table = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    inputs = jax.make_array_from_callback(shape, rows, lambda where: table[where])
    weights = np.random.default_rng(1).normal(0, width**-0.5, (LAYERS, width, width)).astype(np.float32)
    filling = np.zeros((jax.device_count(), ballast * 2**18 // jax.device_count()), np.float32)

    def loss_of(weights: Any, inputs: Any) -> Any:
        hidden = inputs
        for layer in range(LAYERS):
            hidden = jnp.tanh(hidden @ weights[layer])
        return jnp.mean((hidden - inputs) ** 2)

    @jax.jit
    def advance(state: Any, inputs: Any) -> Any:
        loss, slope = jax.value_and_grad(loss_of)(state["weights"], inputs)
        return {"weights": state["weights"] - 0.1 * slope, "ballast": state["ballast"] + loss}, loss

    state = {
        "weights": jax.device_put(weights, everywhere),
        "ballast": jax.make_array_from_callback(filling.shape, rows, lambda where: filling[where]),
    }
    return Training(state, lambda state: advance(state, inputs))


class Watch:
    """When was each step done? The leader writes it down; a step counts when its loss is there."""

    def __init__(self, folder: Path, *, is_leader: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / STEPS_FILE).open("a", buffering=1) if is_leader else None
        self._done: list[float] = []
        self._in_save: list[float] = []

    def done(self, step: int, loss: Any) -> None:
        loss.block_until_ready()
        self._done.append(time.perf_counter())
        if self._file is not None:
            self._file.write(f"{time.time()} {os.getpid()} {step}\n")

    def saved(self) -> None:
        """The call that may save came back."""
        self._in_save.append(time.perf_counter() - self._done[-1])

    def summary(self) -> dict[str, Any]:
        """Seconds per step at the mean, and in the longest call that may save."""
        late = self._done[LATE:]
        return {"step_seconds": (late[-1] - late[0]) / (len(late) - 1), "longest_save_call": max(self._in_save[1:])}


def steps_done(folder: Path) -> Iterator[tuple[float, int, int]]:
    """(time, process, step) of every step so far."""
    path = folder / STEPS_FILE
    for line in path.read_text().splitlines() if path.exists() else []:
        when, process, step = line.split()
        yield float(when), int(process), int(step)


if __name__ == "__main__":
    bare(**json.loads(sys.argv[1]))
