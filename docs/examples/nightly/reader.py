"""A network that reads digits, trained each night from where it was, and what judges it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import prefect_tpu as tpu

BATCH = 128
HIDDEN = 64
LEARNING_RATE = 0.2


def main(steps: int = 200, seed: int = 0) -> dict[str, float]:
    """Train on the pictures `digits`; a night's first step starts with the champion's weights."""
    tpu.join()
    mesh = tpu.mesh({"data": -1})
    rows, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    pictures, digits = read("digits")
    params = jax.device_put(new_network(seed), everywhere)
    with tpu.checkpoints() as checkpoints:
        params, start = checkpoints.restore(params)
        for step in range(start, steps):
            chosen = np.random.default_rng([seed, step]).choice(len(digits), BATCH)
            parts = tpu.shard(pictures[chosen], digits[chosen])
            batch = [jax.make_array_from_process_local_data(rows, part) for part in parts]
            params, loss = train_step(params, *batch)
            tpu.report(step, loss=loss)
            checkpoints.save(step, params)
    return {"loss": float(loss_of(params, pictures, digits))}


def evaluate() -> dict[str, float]:
    """How the weights that it is given read the pictures `held_out`."""
    tpu.join()
    everywhere = NamedSharding(tpu.mesh({"data": -1}), PartitionSpec())
    with tpu.checkpoints() as checkpoints:
        params, _ = checkpoints.restore(jax.device_put(new_network(0), everywhere))
    pictures, digits = read("held_out")
    accuracy = jnp.mean(jnp.argmax(network(params, pictures), axis=1) == digits)
    return {"accuracy": float(accuracy), "loss": float(loss_of(params, pictures, digits))}


def read(name):
    with np.load(tpu.info().data[name]) as table:
        return table["pictures"], table["digits"]


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


@jax.jit
def train_step(params, pictures, digits):
    loss, slope = jax.value_and_grad(loss_of)(params, pictures, digits)
    return jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, slope), loss
