"""Programs with a fault each, which the compiler finds before there is a slice."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import prefect_tpu as tpu


def too_large(mesh):
    """An array of 64 GiB on each device."""
    rows = jax.NamedSharding(mesh, jax.P("data"))
    table = jax.ShapeDtypeStruct((mesh.size, 16 * 2**30), jnp.float32, sharding=rows)
    return jax.jit(grown).lower(table)


def grown(table):
    return table * 2.0


def does_not_divide(batch: int = 100):
    """A batch that the axis cannot share out."""
    mesh = tpu.mesh({"data": -1})
    rows = jax.device_put(np.ones((batch, 8), np.float32), jax.NamedSharding(mesh, jax.P("data")))
    averaged(rows)


@tpu.step
@jax.jit
def averaged(rows):
    return rows - rows.mean(axis=0)


def not_on_tpu():
    """Eigenvalues of any matrix, which JAX computes on CPUs alone."""
    mesh = tpu.mesh({"data": -1})
    tables = jax.device_put(np.ones((mesh.size, 4, 4), np.float32), jax.NamedSharding(mesh, jax.P("data")))
    spectrum(tables)


@tpu.step
@jax.jit
def spectrum(tables):
    return jnp.abs(jnp.linalg.eigvals(tables))


def across_hosts(tp: int = -1):
    """A layer that is split over more devices than a host has, so each product is summed between hosts."""
    mesh = tpu.mesh({"data": -1, "tp": tp} if tp > 0 else {"tp": tp})
    split = jax.NamedSharding(mesh, jax.P(None, "tp"))
    weights = jax.device_put(np.ones((256, 256), np.float32), split)
    inputs = jax.device_put(np.ones((64, 256), np.float32), split)
    layer(inputs, weights)


@tpu.step
@jax.jit
def layer(inputs, weights):
    return jnp.sum(inputs @ weights.T, axis=0)


def for_eight():
    """A mesh of eight devices, whatever the slice has."""
    mesh = tpu.mesh({"data": 8})
    averaged(jax.device_put(np.ones((8, 8), np.float32), jax.NamedSharding(mesh, jax.P("data"))))


def for_four_of_them():
    """A mesh of JAX's own over some of the devices."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("data",))
    averaged(jax.device_put(np.ones((8, 8), np.float32), jax.NamedSharding(mesh, jax.P("data"))))


def without_step(steps: int = 3):
    """Never says which call is its step."""
    return jax.jit(grown)(np.ones(steps, np.float32)).sum()


def lowered_here(mesh):
    """Nothing says that its array is on the mesh, so JAX takes this machine."""
    return jax.jit(grown).lower(jax.ShapeDtypeStruct((8, 8), jnp.float32))


def lowered_for_one(mesh):
    """On the first device of the slice alone."""
    return jax.jit(grown).lower(
        jax.ShapeDtypeStruct((8, 8), jnp.float32, sharding=jax.sharding.SingleDeviceSharding(mesh.devices.flat[0]))
    )


def lowers_an_array(*, mesh):
    """A real array, for which there is no device yet."""
    return jax.jit(grown).lower(jax.device_put(np.ones((16, 8)), jax.NamedSharding(mesh, jax.P("data"))))
