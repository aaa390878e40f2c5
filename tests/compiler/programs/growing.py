"""Steps whose memory is known beforehand: a table of 1 GiB for each row of the batch, changed in its place."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

import prefect_tpu as tpu

ROW = (8, 2**25)  # 2**28 numbers of four bytes, as the chip lays them out: without padding


@functools.partial(jax.jit, donate_argnums=0)
def halved(table):
    return table * 0.5


def lower(mesh, batch: int):
    """Rows are shared out over all devices."""
    rows = jax.NamedSharding(mesh, jax.P("data"))
    return halved.lower(jax.ShapeDtypeStruct((batch, *ROW), jnp.float32, sharding=rows))


def lower_whole(mesh, gib: int):
    """A table of this size, shared out over whatever there is."""
    rows = jax.NamedSharding(mesh, jax.P(None, None, "data"))
    return halved.lower(jax.ShapeDtypeStruct((gib, *ROW), jnp.float32, sharding=rows))


def lower_rows(mesh, batch: int):
    """32 GiB for each row."""
    return lower(mesh, 32 * batch)


def lower_few(mesh, batch: int):
    """Of data that has 20 rows for each of 8 devices."""
    if batch > 160:
        raise IndexError("there are no more rows")
    return lower(mesh, batch)


def returns_nothing(mesh):
    halved.lower(jax.ShapeDtypeStruct((8,), jnp.float32))


def main(batch: int = 16):
    """The same by way of a program, which has the table itself: it must be small."""
    rows = jax.NamedSharding(tpu.mesh(), jax.P("data"))
    tpu.step(halved)(jax.device_put(jnp.ones((batch, 8)), rows))
