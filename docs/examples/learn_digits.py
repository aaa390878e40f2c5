"""Handwritten digits as a flow of a `tpu-slice` work pool: read once, learned on every host of the slice.

As a deployment: `prefect deploy --all --prefect-file deployments/on-slices.yaml`. On a laptop, as on a slice of one
host: `python docs/examples/learn_digits.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from prefect import flow, task

import prefect_tpu as tpu

CLASSES = 10
LEARNING_RATE = 0.5


@task(persist_result=True)
def read(path: str) -> np.ndarray:
    """Once, on the first host; a run that goes on on another slice has the table already where results are kept."""
    return np.loadtxt(path, delimiter=",", dtype=np.int32)


def learn(table: np.ndarray, steps: int) -> float:
    """A region: on every host, JAX over the whole slice."""
    import jax
    import jax.numpy as jnp

    tpu.join()
    mesh = tpu.mesh({"data": -1})
    rows, everywhere = jax.NamedSharding(mesh, jax.P("data")), jax.NamedSharding(mesh, jax.P())
    usable = len(table) // jax.device_count() * jax.device_count()
    parts = tpu.shard((table[:usable, :64] / 16).astype("float32"), table[:usable, 64])
    pictures, digits = (jax.make_array_from_process_local_data(rows, part) for part in parts)

    def loss_of(weights, pictures, digits):
        likely = jax.nn.log_softmax(pictures @ weights)
        return -jnp.mean(jnp.take_along_axis(likely, digits[:, None], axis=1))

    @jax.jit
    def step_of(weights, pictures, digits):  # arrays over all hosts are handed in
        loss, slope = jax.value_and_grad(loss_of)(weights, pictures, digits)
        return weights - LEARNING_RATE * slope, loss

    with tpu.checkpoints() as checkpoints:  # another slice goes on from the newest
        weights, start = checkpoints.restore(jax.device_put(jnp.zeros((64, CLASSES)), everywhere))
        for step in range(start, steps):
            weights, loss = step_of(weights, pictures, digits)
            tpu.report(step, loss=loss)
            checkpoints.save(step, weights)
    return float(jnp.mean(jnp.argmax(pictures @ weights, axis=1) == digits))


@flow(log_prints=True)
def learn_digits(steps: int = 200, data: str = "docs/examples/data/digits.csv.gz") -> float:
    """The share of pictures that are read right."""
    accuracy = tpu.every_host(learn)(read(data), steps)
    print(f"{accuracy:.1%} of the pictures are read right")
    return accuracy


if __name__ == "__main__":
    learn_digits(data=str(Path(__file__).with_name("data") / "digits.csv.gz"))
