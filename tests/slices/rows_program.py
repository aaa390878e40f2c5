"""What one host does for test_rows.py, started by training_program.py."""

from __future__ import annotations

import time

import numpy as np

import prefect_tpu as tpu

ROWS = np.arange(64, dtype=np.float32)


def layouts():
    """The same rows in the same order, whatever the mesh, and what each host had to say of it."""
    tpu.join()
    import jax

    rows = tpu.shard({"x": ROWS.reshape(8, 8), "y": np.arange(8)})
    devices = jax.devices()
    crossed = jax.sharding.Mesh(np.asarray(devices).reshape(2, 2).T, ("data", "tp"))
    found = {}
    for name, layout in {
        "default": None,
        "mesh": tpu.mesh(),
        "crossed": jax.NamedSharding(crossed, jax.P("data")),
        "everywhere": jax.NamedSharding(crossed, jax.P()),
        "turned": jax.NamedSharding(jax.sharding.Mesh(devices[::-1], ("data",)), jax.P("data")),
    }.items():
        made = tpu.global_array(rows, layout)
        parts = {int(shard.index[0].start or 0): np.asarray(shard.data) for shard in made["x"].addressable_shards}
        is_right = all((part == ROWS.reshape(8, 8)[at : at + len(part)]).all() for at, part in parts.items())
        found[name] = [list(made["x"].shape), list(made["y"].shape), is_right, sorted(parts)]
    over = jax.NamedSharding(tpu.mesh(), jax.P("data"))
    own = zip(np.split(rows["x"], 2), jax.local_devices(), strict=True)
    ways = (
        jax.device_put(ROWS.reshape(8, 8), over),  # every host has all of it
        jax.make_array_from_process_local_data(over, rows["x"]),
        jax.make_array_from_single_device_arrays((8, 8), over, [jax.device_put(*piece) for piece in own]),
    )
    found["as JAX itself"] = [bool((tpu.global_array(rows["x"], over) == way).all()) for way in ways]
    jax.set_mesh(crossed)
    by_axis = tpu.global_array(rows["x"], ("data", "tp"))
    found["by axis"] = [len(shard.data) for shard in by_axis.addressable_shards]
    try:
        tpu.global_array(np.ones(3), tpu.mesh())
    except tpu.UsageError as exc:
        found["indivisible"] = str(exc)
    return found


def unequal(at):
    """Host 1 has fewer rows at first, and again from a step on, when the others ask nobody any more."""
    tpu.join()
    import jax

    from prefect_tpu.infra.training import same_rows

    same_rows.PATIENCE = 3.0
    step = jax.jit(lambda x: x.sum())
    first = None
    for number in range(at + 1):
        rows = 3 if number in (0, at) and tpu.info().host == 1 else 4
        try:
            step(tpu.global_array(np.ones((rows, 2), np.float32))).block_until_ready()
        except tpu.UsageError as exc:
            if number:
                raise RuntimeError(f"first: {first} later: {exc}") from exc
            first = str(exc)


def train(steps, pause=0.0):
    """A sum over batches in which the order shows; the digest is that of the same batches on any slice."""
    tpu.join()
    import jax
    import jax.numpy as jnp

    rows = jax.NamedSharding(tpu.mesh(), jax.P("data"))
    everywhere = jax.NamedSharding(tpu.mesh(), jax.P())
    batches = tpu.batches(ROWS, {"square": ROWS**2}, size=12, seed=7)

    @jax.jit
    def advance(total, x, y):
        weights = jnp.arange(x.shape[0]) + 1
        return (total * 3 + jnp.sum(x * weights) + jnp.sum(y * weights)) % 65521  # whole numbers: exact in any order

    with tpu.checkpoints(every=3600, data=batches) as checkpoints:
        total, start = checkpoints.restore(jax.device_put(jnp.zeros(()), everywhere))
        for step in range(start, steps):
            x, y = tpu.global_array(next(batches), rows)
            total = advance(total, x, y["square"])
            tpu.report(step)
            time.sleep(pause)
            checkpoints.save(step, total)
    return {"start": start, "total": float(total)}
