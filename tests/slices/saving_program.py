"""One host's program for test_saving.py: `python saving_program.py CASE KEYWORDS`, outcome as JSON in $OUTCOME."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import shutil
import sys
from collections import namedtuple
from pathlib import Path

import prefect_tpu as tpu

sys.path.append(str(Path(__file__).parent))  # tests are no package

from training_program import main  # noqa: E402

Moments = namedtuple("Moments", "mean count")  # a part of the state whose leaves have names of their own
ROWS, WIDTH = 16, 8


def learn(steps, losses, pause=0.0):
    """A model whose weights and moments are spread over all devices; each loss becomes a line of a file."""
    tpu.join()
    import time

    import jax
    import jax.numpy as jnp
    import numpy as np

    mesh = tpu.mesh({"fsdp": -1})
    spread = jax.NamedSharding(mesh, jax.P("fsdp"))

    def lay(value):
        return jax.make_array_from_callback(value.shape, spread, lambda where: value[where])

    @jax.jit
    def train_step(state, x, y):
        def loss_of(params):
            return jnp.mean((jnp.tanh(x @ params["in"]) @ params["out"] - y) ** 2)

        loss, slopes = jax.value_and_grad(loss_of)(state["params"])
        moments = jax.tree.map(lambda old, new: 0.9 * old + new, state["moments"], slopes)
        params = jax.tree.map(lambda old, moment: old - 0.05 * moment, state["params"], moments)
        return {"params": params, "moments": moments}, loss

    first = np.random.default_rng(0)
    params = {"in": lay(first.normal(size=(ROWS, WIDTH)).astype("f4")), "out": lay(np.ones((WIDTH, 1), "f4"))}
    state = {"params": params, "moments": jax.tree.map(lambda leaf: lay(np.zeros(leaf.shape, "f4")), params)}
    with tpu.checkpoints(steps=4, best=("loss", "min", 2)) as checkpoints:
        state, start = checkpoints.restore(state)
        for step in range(start, steps):
            x = np.random.default_rng(step).normal(size=(ROWS, ROWS)).astype("f4")
            state, loss = train_step(state, lay(x), lay(np.sin(x.sum(axis=1, keepdims=True))))
            if tpu.info().is_leader:
                with open(losses, "a") as file:
                    file.write(json.dumps([step, float(loss)]) + "\n")
            time.sleep(pause)
            tpu.report(step)
            checkpoints.save(step, state, **({} if step % 6 else {"loss": loss}))
    restored = checkpoints.restored
    return {"start": start, "mesh": restored and restored.mesh, "hosts": restored and restored.hosts}


def state(value, width=4, dtype="float32", **more):
    import jax
    import jax.numpy as jnp
    import numpy as np

    return {
        "params": {"encoder": jnp.full((width, 2), value, dtype), "head": jnp.full(3, value)},
        "moments": [Moments(jnp.full(3, value), 3 + int(value)), Moments(np.full(2, value), np.float32(1 + value))],
        "key": jax.random.key(int(value)),
        **more,
    }


def values(state):
    """Each leaf's last number, by its name."""
    import jax
    import numpy as np

    plain = {**state, "key": jax.random.key_data(state["key"])}
    named = jax.tree_util.tree_leaves_with_path(plain)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): float(np.ravel(leaf)[-1]) for path, leaf in named}


def best(directory, accuracies, begin_again_after):
    """Saves by steps and by a metric, in two runs of one program. (what lies there, what the runs knew)"""
    known = []
    for end in (begin_again_after, len(accuracies)):
        side = {"learning_rate": 0.1, "end": end}
        cadence = {"every": math.inf, "steps": 3, "best": ("accuracy", "max", 2), "keep": 1}
        with tpu.checkpoints(directory=directory, side=side, **cadence) as checkpoints:
            _, start = checkpoints.restore(state(0.0))
            known.append([start, checkpoints.side, checkpoints.restored and checkpoints.restored.metrics])
            for step in range(start, end):
                accuracy = accuracies[step]
                checkpoints.save(step, state(1.0), **({} if accuracy is None else {"accuracy": accuracy}))
    sealed = sorted(f"{path.parent.name}/{path.name.split('.')[0]}" for path in Path(directory).glob("*/*.sealed.json"))
    return {"sealed": sealed, "known": known}


def parts(directory):
    """Reads one checkpoint in parts, in other types and as what it is not."""
    import jax.numpy as jnp

    with tpu.checkpoints(directory=directory) as checkpoints:
        checkpoints.save(5, state(1.0))
    found, refused = {}, {}
    with tpu.checkpoints(directory=directory) as checkpoints:
        for name, only in {
            "all": None,
            "prefix": "params",
            "list": ["params/head", "moments/0"],
            "function": lambda name: name.endswith("count"),
        }.items():
            restored, start = checkpoints.restore(state(0.0), only=only)
            found[name] = [start, values(restored)]
        smaller, _ = checkpoints.restore({"params": {"encoder": jnp.zeros((4, 2), jnp.bfloat16)}}, only="params")
        found["type"] = str(smaller["params"]["encoder"].dtype)
        for name, given in {
            "shape": (state(0.0, width=8), None),
            "missing": (state(0.0, extra=jnp.zeros(2)), None),
            "surplus": ({"params": state(0.0)["params"]}, None),
            "kind": (state(0.0, dtype="int32"), None),
            "nothing": (state(0.0), "parms"),
        }.items():
            try:
                checkpoints.restore(given[0], only=given[1])
            except tpu.UsageError as exc:
                refused[name] = str(exc)
    (foreign := Path(f"{directory}-foreign")).mkdir()
    shutil.copytree(f"{directory}/1", foreign / "1")
    (foreign / "1" / "5" / "state").rename(foreign / "1" / "5" / "model")
    seal = json.loads((foreign / "1" / "5.sealed.json").read_text())
    seal["files"] = {name.replace("state/", "model/"): size for name, size in seal["files"].items()}
    (foreign / "1" / "5.sealed.json").write_text(json.dumps({**seal, "crc32": {}}))
    gone = state(1.0)
    gone["params"]["encoder"].delete()
    closed = tpu.checkpoints(directory=directory)
    for name, call in {
        "text": lambda block: block.save(6, {"text": "in the state"}),
        "donated": lambda block: block.save(6, gone),
        "step": lambda block: block.save("6", state(1.0)),
        "negative": lambda block: block.save(-1, state(1.0)),
        "foreign": lambda block: block.restore(state(0.0)),
        "outside": lambda block: closed.save(6, state(1.0)),
        "not begun": lambda block: closed.restore(state(1.0)),
    }.items():
        try:
            with tpu.checkpoints(every=1e-6, directory=foreign if name == "foreign" else directory) as checkpoints:
                call(checkpoints)
        except tpu.UsageError as exc:
            refused[name] = str(exc)
    return {"found": found, "refused": refused}


def only_read(directory):
    """What lies where nothing can be written is restored, and no more; where nothing lies, that is said at once."""
    for name in ("whole", "empty"):
        Path(directory, name).mkdir(parents=True)
    with tpu.checkpoints(directory=f"{directory}/whole") as checkpoints:
        checkpoints.save(5, state(1.0))
    with closed(directory):
        with tpu.checkpoints(directory=f"{directory}/whole", keep=1) as checkpoints:
            restored, start = checkpoints.restore(state(0.0))
        said = {}
        for name in ("whole", "empty"):
            try:
                with tpu.checkpoints(every=math.inf, directory=f"{directory}/{name}") as checkpoints:
                    checkpoints.save(6, state(1.0))
            except (tpu.UsageError, tpu.PlatformError) as exc:
                said[name] = f"{type(exc).__name__}: {exc}"
    there = sorted(str(path.relative_to(directory)) for path in Path(directory).glob("*/*"))
    return {"start": start, "values": values(restored), "said": said, "there": there}


@contextlib.contextmanager
def closed(directory):
    """Nobody may write there: no right of root's either, which this process gives up."""
    folders = [folder for folder, _, _ in os.walk(directory)]
    for folder in folders:
        os.chmod(folder, 0o555)
    if os.geteuid() == 0:
        version_3, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()  # capset(2)
        assert ctypes.CDLL(None).capset(version_3, none) == 0
    try:
        yield
    finally:
        for folder in folders:
            os.chmod(folder, 0o755)


def in_two_blocks():
    for _ in range(2):
        with tpu.checkpoints() as checkpoints:
            checkpoints.save(0, state(1.0))


def tune(fail_at=None):
    """Takes the encoder of another job; the head is its own, also after a failure."""
    with tpu.checkpoints(every=1e-6) as checkpoints:
        now, start = checkpoints.restore(state(0.0), only="params/encoder")
        began = values(now)
        for step in range(start, 3):
            if step == fail_at:
                raise ValueError("asked for")
            now = {**now, "params": {**now["params"], "head": now["params"]["head"] + 10}}
            checkpoints.save(step, now)
    return {"start": start, "began": began, "side": checkpoints.side}


if __name__ == "__main__":
    main(globals())
