"""Handwritten digits: a small network in plain JAX that reads 8x8 pictures.

It runs as it is on a laptop (`python docs/examples/digits.py`) and on every host
of a slice, where its data is staged: `prefect-tpu run docs/examples/digits.py:main
--accelerator v6e-16 --data digits=docs/examples/data/digits.csv.gz`.
"""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import prefect_tpu as tpu

TRAINING_ROWS = 1408  # the other 389 of the 1797 are for the test
BATCH = 128
HIDDEN = 64
LEARNING_RATE = 0.1
MOMENTUM = 0.9


def main(steps: int = 400, seed: int = 0, step_seconds: float = 0.0) -> dict[str, float | int | str]:
    """Train for `steps` steps; `step_seconds` makes each last longer, to have time to look at it."""
    tpu.join()
    mesh = tpu.mesh({"data": -1})
    rows, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    train, test = read_digits()
    batches = tpu.batches(*train, size=BATCH, seed=seed)  # shuffled anew each epoch, alike on all hosts
    params = new_network(seed)
    state = jax.device_put({"params": params, "speed": jax.tree.map(np.zeros_like, params)}, everywhere)

    with tpu.checkpoints(data=batches) as checkpoints:
        state, start = checkpoints.restore(state)
        for step in range(start, steps):
            pictures, digits = tpu.global_array(next(batches), rows)
            state, loss = train_step(state, pictures, digits)
            time.sleep(step_seconds)
            tpu.report(step, loss=loss)
            checkpoints.save(step, state)

    params = jax.device_get(state["params"])
    return {
        "accuracy": float(np.mean(np.argmax(network(params, test[0]), axis=1) == test[1])),
        "loss": float(loss_of(params, *train)),
        "steps": steps,
        "digest": digest(params),
    }


def read_digits():
    """((pictures, digits) to train with, (pictures, digits) to test with)"""
    path = tpu.info().data.get("digits", Path(__file__).with_name("data") / "digits.csv.gz")
    if not path.exists():  # only code travels by itself
        raise SystemExit("The digits are not here: stage them with --data docs/examples/data/digits.csv.gz")
    table = np.loadtxt(path, delimiter=",", dtype=np.int32)
    table = np.random.default_rng(0).permutation(table)
    pictures, digits = (table[:, :64] / 16).astype(np.float32), table[:, 64]
    return (pictures[:TRAINING_ROWS], digits[:TRAINING_ROWS]), (pictures[TRAINING_ROWS:], digits[TRAINING_ROWS:])


def new_network(seed):
    random = np.random.default_rng(seed)

    def layer(inputs, outputs):
        weights = random.normal(0, (2 / inputs) ** 0.5, (inputs, outputs)).astype(np.float32)
        return {"weights": weights, "bias": np.zeros(outputs, np.float32)}

    return {"first": layer(64, HIDDEN), "second": layer(HIDDEN, 10)}


def network(params, pictures):
    hidden = jax.nn.relu(pictures @ params["first"]["weights"] + params["first"]["bias"])
    return hidden @ params["second"]["weights"] + params["second"]["bias"]


def loss_of(params, pictures, digits):
    scores = jax.nn.log_softmax(network(params, pictures))
    return -jnp.mean(jnp.take_along_axis(scores, digits[:, None], axis=1))


@tpu.step
@jax.jit
def train_step(state, pictures, digits):
    loss, slope = jax.value_and_grad(loss_of)(state["params"], pictures, digits)
    speed = jax.tree.map(lambda v, g: MOMENTUM * v - LEARNING_RATE * g, state["speed"], slope)
    return {"params": jax.tree.map(jnp.add, state["params"], speed), "speed": speed}, loss


def digest(params):
    """Two runs that agree in it agree in every bit of the model."""
    leaves = (np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params))
    return hashlib.sha256(b"".join(leaves)).hexdigest()


if __name__ == "__main__":
    print(main())
