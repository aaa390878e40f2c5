"""Handwritten digits on several slices: the weights are split within a slice, the batch over the slices.

Within a slice devices are joined by ICI, which is fast; between slices there is the data centre's network. So what is
exchanged often (a part of the weights for each layer) stays within a slice, and only the slopes cross, once a step.
"""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import numpy as np
import optax

import prefect_tpu as tpu

HIDDEN = 256
BATCH = 128
OPTIMIZER = optax.adam(1e-3)


def main(steps: int = 200, replicas: int = 1, seed: int = 0) -> dict[str, float | int]:
    """Train with so many copies of the weights: as many as there are slices."""
    tpu.join()
    mesh = tpu.mesh({"data": replicas, "fsdp": -1})
    rows = jax.NamedSharding(mesh, jax.P(("data", "fsdp")))
    pictures, digits = read()
    new = functools.partial(new_state, seed)
    state = jax.jit(new, out_shardings=tpu.fsdp(jax.eval_shape(new), mesh))()

    with tpu.checkpoints() as checkpoints:
        state, start = checkpoints.restore(state)
        for step in range(start, steps):
            chosen = np.random.default_rng([seed, step]).permutation(len(digits))[:BATCH]
            share = tpu.shard(pictures[chosen], digits[chosen])
            batch = [jax.make_array_from_process_local_data(rows, part) for part in share]
            state, loss = train_step(state, *batch)
            tpu.report(step, loss=loss)
            checkpoints.save(step, state)
    return {"loss": float(loss_of(state["weights"], pictures, digits)), "replicas": replicas}


def new_state(seed):
    random = jax.random.split(jax.random.key(seed))
    weights = {
        "first": jax.random.normal(random[0], (64, HIDDEN)) / 8,
        "second": jax.random.normal(random[1], (HIDDEN, 10)) / HIDDEN**0.5,
    }
    return {"weights": weights, "optimizer": OPTIMIZER.init(weights)}


@jax.jit
def loss_of(weights, pictures, digits):
    scores = jax.nn.relu(pictures @ weights["first"]) @ weights["second"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, digits).mean()


@tpu.step
@jax.jit
def train_step(state, pictures, digits):
    loss, slope = jax.value_and_grad(loss_of)(state["weights"], pictures, digits)
    change, memory = OPTIMIZER.update(slope, state["optimizer"], state["weights"])
    return {"weights": optax.apply_updates(state["weights"], change), "optimizer": memory}, loss


def read():
    path = tpu.info().data.get("digits", Path(__file__).parents[1] / "data" / "digits.csv.gz")
    table = np.loadtxt(path, delimiter=",", dtype=np.int32)
    return (table[:, :64] / 16).astype(np.float32), table[:, 64]


if __name__ == "__main__":
    print(main())
