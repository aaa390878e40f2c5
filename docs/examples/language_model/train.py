"""A small language model: a transformer in Flax NNX that learns to continue this project's pages, byte by byte.

Its weights, and what Optax remembers of them, are split over all devices (FSDP). It runs as it is on a laptop, on a
slice and on several.
"""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

import prefect_tpu as tpu

BYTES = 256
CONTEXT = 64
WIDTH = 64
HEADS = 4
BLOCKS = 2
LEARNING_RATE = 3e-3


def main(steps: int = 500, batch: int = 16, seed: int = 0) -> dict[str, float | int]:
    """Train on the pages `text`, so many pieces of them at a time on all hosts together."""
    tpu.join()
    mesh = tpu.mesh({"fsdp": -1})
    rows = jax.NamedSharding(mesh, jax.P("fsdp"))
    text = read()
    kind, state = new_model(mesh, seed)

    def pieces(step):
        """Over all devices; the step alone decides which, so that another attempt draws the same."""
        starts = np.random.default_rng([seed, step]).integers(0, len(text) - CONTEXT, batch)
        drawn = np.stack([text[start : start + CONTEXT + 1] for start in starts])
        return jax.make_array_from_process_local_data(rows, tpu.shard(drawn))

    with tpu.checkpoints() as checkpoints:
        state, start = checkpoints.restore(state)
        for step in range(start, steps):
            state, loss = train_step(kind, state, pieces(step))
            tpu.report(step, loss=loss)
            checkpoints.save(step, state)

    losses = [float(loss_of_state(kind, state, pieces(steps + number))) for number in range(8)]
    return {"bits_per_byte": float(np.mean(losses) / np.log(2)), "steps": steps}


class Writer(nnx.Module):
    """Which byte comes next, after each of a piece."""

    def __init__(self, rngs):
        self.bytes = nnx.Embed(BYTES, WIDTH, rngs=rngs)
        self.places = nnx.Embed(CONTEXT, WIDTH, rngs=rngs)
        self.blocks = nnx.List([Block(rngs) for _ in range(BLOCKS)])
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)

    def __call__(self, pieces):
        x = self.bytes(pieces) + self.places(jnp.arange(pieces.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.bytes.attend(self.norm(x))


class Block(nnx.Module):
    def __init__(self, rngs):
        self.first, self.second = nnx.LayerNorm(WIDTH, rngs=rngs), nnx.LayerNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.wide, self.narrow = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs), nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.first(x), mask=nnx.make_causal_mask(x[..., 0]))
        return x + self.narrow(nnx.gelu(self.wide(self.second(x))))


def new_model(mesh, seed):
    """(what kind of model and optimizer, their state); the state is whole nowhere, not even now."""

    def new():
        model = Writer(nnx.Rngs(seed))
        return nnx.split((model, nnx.Optimizer(model, optax.adamw(LEARNING_RATE), wrt=nnx.Param)))

    kind, shapes = nnx.eval_shape(new)
    return kind, jax.jit(lambda: new()[1], out_shardings=tpu.fsdp(shapes, mesh))()


def loss_of(model, pieces):
    scores = model(pieces[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(scores, pieces[:, 1:]).mean()


@tpu.step
@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def train_step(kind, state, pieces):
    model, optimizer = nnx.merge(kind, state)
    loss, slope = nnx.value_and_grad(loss_of)(model, pieces)
    optimizer.update(model, slope)
    return nnx.state((model, optimizer)), loss


@functools.partial(jax.jit, static_argnums=0)
def loss_of_state(kind, state, pieces):
    return loss_of(nnx.merge(kind, state)[0], pieces)


def read():
    """All pages as one text. Inside a job they are the data `text`, else those beside the examples."""
    place = tpu.info().data.get("text", Path(__file__).parents[2] / "how-to")
    pages = [page.read_bytes() for page in sorted(place.glob("*.md"))]
    if not pages:  # only code travels by itself
        raise SystemExit("The text is not here: stage it with --data text=docs/how-to")
    return np.frombuffer(b"\n".join(pages), np.uint8).astype(np.int32)


if __name__ == "__main__":
    print(main())
