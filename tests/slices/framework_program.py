"""One host's programs for test_frameworks.py: small models, each trained by a framework as its users write it."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

os.environ["KERAS_BACKEND"] = "jax"
sys.path.append(str(Path(__file__).parent))  # a host does not look beside its program by itself

import training_program  # noqa: E402
from training_program import digest  # noqa: E402

import prefect_tpu as tpu  # noqa: E402

ROWS, BATCH, WIDTH = 64, 16, 4


def table():
    import numpy as np

    x = np.random.default_rng(5).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return x, x @ np.arange(1, WIDTH + 1, dtype=np.float32)


def batch_of(step):
    """This host's rows of a batch that the step alone decides."""
    import numpy as np

    chosen = np.random.default_rng([7, step]).permutation(ROWS)[:BATCH]
    return tpu.shard(*(part[chosen] for part in table()))


def loss_of(w, x, y):
    return ((x @ w - y) ** 2).mean()


def jax_ways(steps, pause=0.0):
    """The same line fitted with jit, shard_map, pmap, Optax and Flax NNX, side by side in one state."""
    tpu.join()
    import jax

    mesh = tpu.mesh({"fsdp": -1})
    ways = {"jit": Jit, "shard_map": ShardMap, "pmap": Pmap, "optax": Optax, "nnx": Nnx}
    made = {name: way(mesh) for name, way in ways.items()}
    rows = jax.NamedSharding(mesh, jax.P("fsdp"))
    with tpu.checkpoints() as checkpoints:
        state, start = checkpoints.restore({name: way.first for name, way in made.items()})
        for step in range(start, steps):
            own = batch_of(step)
            whole = tuple(jax.make_array_from_process_local_data(rows, part) for part in own)
            state = {name: way(state[name], *(own if name == "pmap" else whole)) for name, way in made.items()}
            time.sleep(pause)
            tpu.report(step)
            checkpoints.save(step, state)
    everywhere = jax.NamedSharding(mesh, jax.P())
    whole = {name: jax.device_put(part, everywhere) if name != "pmap" else part for name, part in state.items()}
    return {
        "start": start,
        "reductions": made["shard_map"].reductions(
            *(jax.make_array_from_process_local_data(rows, p) for p in batch_of(0))
        ),
        "digests": {name: digest(part) for name, part in whole.items()},
        "losses": {name: float(loss_of(way.weights(whole[name]), *table())) for name, way in made.items()},
        "split": sorted({tuple(leaf.sharding.spec) for leaf in jax.tree.leaves(state["nnx"]) if leaf.ndim == 2}),
    }


class Jit:
    """Arrays over the mesh are handed in, and the compiler adds what crosses hosts."""

    def __init__(self, mesh):
        import jax
        import jax.numpy as jnp

        self.first = jax.device_put(jnp.zeros(WIDTH), jax.NamedSharding(mesh, jax.P()))
        self.step = jax.jit(lambda w, x, y: w - 0.05 * jax.grad(loss_of)(w, x, y))

    def __call__(self, state, x, y):
        return self.step(state, x, y)

    def weights(self, state):
        return state


class ShardMap(Jit):
    """What each device does is written down: it gathers the slopes of two small batches, and one mean goes over all."""

    def __init__(self, mesh):
        super().__init__(mesh)
        import jax

        def step(w, x, y):
            mine = jax.lax.pcast(w, "fsdp", to="varying")  # else grad would add the slopes up itself
            small = (x.reshape(2, -1, WIDTH), y.reshape(2, -1))
            gathered, _ = jax.lax.scan(lambda sum_, xy: (sum_ + jax.grad(loss_of)(mine, *xy), None), mine * 0, small)
            return w - 0.05 * jax.lax.pmean(gathered / 2, "fsdp")

        rows = jax.P("fsdp")
        self.step = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=(jax.P(), rows, rows), out_specs=jax.P()))

    def reductions(self, x, y):
        """How often a step adds up over hosts: each part of the compiled program that does, and how often it does."""
        text = self.step.lower(self.first, x, y).compile().as_text()
        parts = {part.splitlines()[0].split()[0]: part for part in text.split("\n\n") if "all-reduce(" in part}
        return {name: part.count("all-reduce(") for name, part in parts.items()}


class Pmap:
    """As programs of some years ago are written: a row of this host's arrays for each of its devices."""

    def __init__(self, mesh):
        import jax
        import numpy as np

        self.devices = jax.local_device_count()
        self.first = np.zeros(WIDTH, np.float32)

        def step(w, x, y):
            return w - 0.05 * jax.lax.pmean(jax.grad(loss_of)(w, x, y), "all")

        self.step = jax.pmap(step, axis_name="all")

    def __call__(self, state, x, y):
        import numpy as np

        def split(part):
            return part.reshape(self.devices, -1, *part.shape[1:])

        stacked = self.step(np.stack([state] * self.devices), split(x), split(y))
        return np.asarray(stacked.addressable_shards[0].data)[0]

    def weights(self, state):
        return state


class Optax(Jit):
    """Two steps' slopes make one update: what is gathered between them is saved too."""

    def __init__(self, mesh):
        super().__init__(mesh)
        import jax
        import optax

        optimizer = optax.MultiSteps(optax.adam(0.1), every_k_schedule=2)
        everywhere = jax.NamedSharding(mesh, jax.P())
        self.first = jax.device_put({"w": self.first, "optimizer": optimizer.init(self.first)}, everywhere)

        @jax.jit
        def step(state, x, y):
            slope = jax.grad(loss_of)(state["w"], x, y)
            change, memory = optimizer.update(slope, state["optimizer"], state["w"])
            return {"w": optax.apply_updates(state["w"], change), "optimizer": memory}

        self.step = step

    def weights(self, state):
        return state["w"]


class Nnx:
    """A module and its optimizer, split over all devices by the rule of `fsdp`."""

    def __init__(self, mesh):
        import jax
        import optax
        from flax import nnx

        def new():
            model = nnx.Linear(WIDTH, 1, use_bias=False, rngs=nnx.Rngs(0))
            return nnx.split((model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)))

        self.shape, abstract = nnx.eval_shape(new)
        shardings = tpu.fsdp(abstract, mesh)
        self.first = jax.jit(lambda: new()[1], out_shardings=shardings)()

        @jax.jit
        def step(state, x, y):
            model, optimizer = nnx.merge(self.shape, state)
            optimizer.update(model, nnx.grad(lambda model: ((model(x)[:, 0] - y) ** 2).mean())(model))
            return nnx.state((model, optimizer))

        self.step = step

    def __call__(self, state, x, y):
        return self.step(state, x, y)

    def weights(self, state):
        from flax import nnx

        return nnx.merge(self.shape, state)[0].kernel[...][:, 0]


def keras_model_parallel(epochs, pause=0.0):
    """Each host has the rows of one replica, whose weights are split over its devices."""
    tpu.join()
    import jax
    import keras
    import numpy as np

    mesh = keras.distribution.DeviceMesh((jax.process_count(), jax.local_device_count()), ("batch", "model"))
    layout = keras.distribution.LayoutMap(mesh)
    layout[".*kernel"] = (None, "model")
    keras.distribution.set_distribution(keras.distribution.ModelParallel(layout_map=layout, auto_shard_dataset=False))
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x, y = table()
    own = tpu.shard(x, np.stack([y, -y], axis=1))

    class Slow(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            time.sleep(pause)

    saving = tpu.keras_checkpoints(model)
    found = model.fit(
        *own, batch_size=BATCH // jax.process_count(), epochs=epochs, callbacks=[saving, Slow()], verbose=0
    )
    kernel = model.layers[0].kernel.value
    whole = [
        jax.device_put(variable.value, jax.NamedSharding(mesh.backend_mesh, jax.P()))
        for variable in [*model.variables, *model.optimizer.variables]
    ]
    return {
        "digests": {"keras": digest(whole)},
        "losses": {"keras": float(found.history["loss"][-1])},
        "split": [tuple(kernel.sharding.spec)],
    }


if __name__ == "__main__":
    training_program.main(globals())
