"""The step of a transformer of seven billion parameters, for `prefect-tpu compile`: none of its weights is ever made.

Parameters and Adam's moments are float32 and shared out over all devices (FSDP), as the batch is; it computes in
bfloat16. Layers are scanned, so that one is compiled instead of 32, and computed again on the way back.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Tree = dict[str, Any]


def lower(mesh: Mesh, batch: int = 256, sequence: int = 4096, layers: int = 32) -> jax.stages.Lowered:
    """The step on abstract arrays: 32 layers make 6.7 billion parameters."""
    over = mesh.axis_names  # FSDP goes over all axes there are

    def abstract(shape: tuple[int, ...], *spec: Any, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    width, hidden, vocabulary = 4096, 11_008, 32_000
    shapes = {"query": width, "key": width, "value": width, "gate": hidden, "up": hidden}
    weights = {
        "layers": {
            **{name: abstract((layers, width, size), None, over) for name, size in shapes.items()},
            "out": abstract((layers, width, width), None, None, over),
            "down": abstract((layers, hidden, width), None, None, over),
            "before": abstract((layers, width)),
            "after": abstract((layers, width)),
        },
        "embed": abstract((vocabulary, width), None, over),
        "head": abstract((width, vocabulary), over),
    }
    state = {"weights": weights, "mean": weights, "square": weights, "step": abstract((), dtype=jnp.int32)}
    tokens = abstract((batch, sequence + 1), over, dtype=jnp.int32)
    rows = NamedSharding(mesh, P(over))
    return jax.jit(partial(train_step, rows), donate_argnums=0).lower(state, tokens)


def train_step(rows: NamedSharding, state: Tree, tokens: jax.Array) -> tuple[Tree, jax.Array]:
    """One step of Adam; `rows` is how the batch is shared out."""
    loss, grads = jax.value_and_grad(loss_of)(state["weights"], tokens, rows)
    step = state["step"] + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], grads)
    square = jax.tree.map(lambda s, g: 0.95 * s + 0.05 * g * g, state["square"], grads)

    def moved(weight: jax.Array, m: jax.Array, s: jax.Array) -> jax.Array:
        return weight - 3e-4 * (m / (1 - 0.9**step)) / (jnp.sqrt(s / (1 - 0.95**step)) + 1e-8)

    weights = jax.tree.map(moved, state["weights"], mean, square)
    return {"weights": weights, "mean": mean, "square": square, "step": step}, loss


def loss_of(weights: Tree, tokens: jax.Array, rows: NamedSharding) -> jax.Array:
    """The mean surprise of the next tokens."""
    weights = jax.tree.map(lambda weight: weight.astype(jnp.bfloat16), weights)
    x = jax.lax.with_sharding_constraint(weights["embed"][tokens[:, :-1]], rows)

    @jax.checkpoint
    def layer(x: jax.Array, own: Tree) -> tuple[jax.Array, None]:
        x = x + attention(normal(x, own["before"]), own)
        inner = normal(x, own["after"])
        x = x + (jax.nn.silu(inner @ own["gate"]) * (inner @ own["up"])) @ own["down"]
        return jax.lax.with_sharding_constraint(x, rows), None

    x, _ = jax.lax.scan(layer, x, weights["layers"])
    logits = (x @ weights["head"]).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1).mean()


def attention(x: jax.Array, own: Tree, heads: int = 32) -> jax.Array:
    """Each token looks at those before it."""
    query, key, value = (jnp.reshape(x @ own[name], (*x.shape[:2], heads, -1)) for name in ("query", "key", "value"))
    seen = jax.nn.dot_product_attention(turned(query), turned(key), value, is_causal=True)
    return seen.reshape(x.shape) @ own["out"]


def turned(x: jax.Array) -> jax.Array:
    """By an angle that grows with the place in the text (rotary embedding)."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None, None] / 10_000 ** (jnp.arange(half) / half)
    left, right = x[..., :half], x[..., half:]
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def normal(x: jax.Array, scale: jax.Array) -> jax.Array:
    """Of unit mean square."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * scale
