"""Ways to write a step: what JAX and Flax offer for saying where arrays go."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import prefect_tpu as tpu


def laid(mesh, *spec):
    return jax.device_put(jnp.ones((64, 64)), jax.NamedSharding(mesh, jax.P(*spec)))


def explicit():
    """Types say which axis each dimension is shared out over."""
    mesh = tpu.mesh({"data": 4, "tp": 4}, types="explicit")
    with jax.set_mesh(mesh):
        step = tpu.step(jax.jit(lambda weights, rows: (rows @ weights).sum()))
        step(laid(mesh, None, None), laid(mesh, "data", None))


def mixed():
    """Keys, numbers and NumPy beside arrays; donated by name."""
    mesh = tpu.mesh({"data": -1})

    @tpu.step
    @functools.partial(jax.jit, donate_argnames="state")
    def step(key, rows, rate, number, *, state):
        return state + jax.random.normal(key, state.shape) * rate * rows.sum(), number + 1

    step(jax.random.key(0), np.ones((3, 4), np.float32), 0.1, 3, state=laid(mesh, "data"))


def said_inside():
    """The step itself says where its arguments go."""
    rows = jax.NamedSharding(tpu.mesh({"data": -1}), jax.P("data"))
    tpu.step(jax.jit(lambda x: x * 2, in_shardings=rows, out_shardings=rows))(np.ones((64, 8), np.float32))


def mapped():
    """Each device for itself, with its own exchange."""
    mesh = tpu.mesh({"data": -1})

    @tpu.step
    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=jax.P("data"), out_specs=jax.P())
    def step(rows):
        return jax.lax.psum(rows.sum(0), "data")

    step(laid(mesh, "data"))


def within_a_mesh():
    """The step names axes alone: of the mesh that is set around its call."""
    mesh = tpu.mesh({"data": -1})
    with jax.set_mesh(mesh):
        tpu.step(jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, jax.P("data"))))(laid(mesh, "data"))


def mesh_for_good():
    mesh = tpu.mesh({"data": -1}, types="explicit")
    jax.set_mesh(mesh)
    tpu.step(jax.jit(lambda x: x.sum()))(laid(mesh, "data"))


def modules():
    """Flax takes modules in place of arrays, and changes them."""
    import optax
    from flax import nnx

    mesh = tpu.mesh({"data": -1})
    model = nnx.Linear(64, 64, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

    @tpu.step
    @nnx.jit
    def step(model, optimizer, rows):
        loss, slope = nnx.value_and_grad(lambda model: (model(rows) ** 2).mean())(model)
        optimizer.update(model, slope)
        return loss

    step(model, optimizer, laid(mesh, "data"))
