"""One host's program for test_training.py: `python training_program.py CASE KEYWORDS`, outcome as JSON in $OUTCOME.

It leaves as the host runner's program does: after a failure at once, because JAX's
own exit waits for peers that may be dead.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import json
import os
import runpy
import sys
import time
from pathlib import Path

import prefect_tpu as tpu


class Numbers:
    """A data iterator whose position matters: the n-th number is n."""

    def __init__(self):
        self.drawn = 0

    def __next__(self):
        self.drawn += 1
        return self.drawn

    def get_state(self):
        return {"drawn": self.drawn, "host": tpu.info().host}

    def set_state(self, state):
        self.drawn = state["drawn"]
        self.restored_from_host = state["host"]


def train(steps, pause=0.0, every=None, raise_at=None, directory=None, save_each=1):
    """Adds numbers to a sharded array; every kind of leaf that a state may hold takes part."""
    tpu.join()
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = tpu.mesh()
    rows = NamedSharding(mesh, PartitionSpec("data"))
    state = {
        "sharded": jax.make_array_from_callback((16,), rows, lambda where: np.arange(16, dtype=np.float32)[where]),
        "own": jnp.zeros((), jnp.int32),
        "weak": jnp.asarray(0.5),
        "key": jax.random.key(3),
        "numpy": np.zeros(3, np.float64),
        "scalar": np.float32(1),
        "int": 0,
        "nothing": None,
        "half": jnp.ones(2, jnp.bfloat16),
    }

    @jax.jit
    def advance(sharded, number, noise, weak):
        moved = sharded + number * 0.25 + noise * weak
        return moved, jnp.mean(moved)

    @jax.jit
    def count(own, half, weak):
        return own + 1, half + 1, weak * 1

    numbers = Numbers()
    began_leaving = None
    try:
        with tpu.checkpoints(every=every, data=numbers, directory=directory) as checkpoints:
            state, start = checkpoints.restore(state)
            for step in range(start, steps):
                key, use = jax.random.split(state["key"])
                noise = np.asarray(jax.random.randint(use, (), 0, 4)).astype(np.float32)
                number = next(numbers)
                sharded, mean = advance(state["sharded"], np.float32(number), noise, np.float32(state["weak"]))
                own, half, weak = count(state["own"], state["half"], state["weak"])
                state = {
                    **state,
                    "sharded": sharded,
                    "own": own,
                    "half": half,
                    "weak": weak,
                    "key": key,
                    "numpy": state["numpy"] + number,
                    "scalar": np.float32(state["scalar"] + number),
                    "int": state["int"] + number,
                }
                if step == raise_at and tpu.info().host == tpu.info().hosts - 1:
                    began_leaving = time.monotonic()
                    raise ValueError(f"asked for at step {step}")
                time.sleep(pause)
                tpu.report(step, mean=mean)
                if step % save_each == 0:
                    checkpoints.save(step, state)
    finally:
        if began_leaving is not None:
            sys.stdout.write(f"left the block after {time.monotonic() - began_leaving:.3f} s\n")
    whole = jax.device_put(state["sharded"], NamedSharding(mesh, PartitionSpec()))
    return {
        "start": start,
        "drawn": numbers.drawn,
        "restored_from_host": getattr(numbers, "restored_from_host", None),
        "weak": [bool(state["weak"].weak_type), bool(state["weak"].committed)],
        "types": {name: type(leaf).__name__ for name, leaf in state.items()},
        "digest": digest({**state, "sharded": whole, "key": jax.random.key_data(state["key"])}),
    }


def digest(state):
    import jax
    import numpy as np

    leaves = (np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(state))
    return hashlib.sha256(b"".join(leaves)).hexdigest()


def join():
    tpu.join()
    tpu.join()
    import jax

    return {"devices": jax.device_count(), "hosts": jax.process_count()}


def join_late():
    import jax

    jax.devices()
    tpu.join()


def refusals():
    """What does not use the slice whole is refused."""
    tpu.join()
    messages = []
    for spec in ({"data": 1}, "[[4,1],[data,tp]]"):
        with contextlib.suppress(tpu.UsageError):
            messages.append(str(tpu.mesh(spec).shape))
            continue
        messages.append("refused")
    mesh = tpu.mesh("[[-1,1],[data,tp]]")
    return {"messages": messages, "shape": dict(mesh.shape), "axes": sorted({str(kind) for kind in mesh.axis_types})}


def train_apart():
    """Each host hands its own share to the step: a model per host, which nothing but a comparison shows."""
    tpu.join()
    import jax
    import jax.numpy as jnp
    import numpy as np

    rows = tpu.shard(np.arange(8, dtype=np.float32))
    with tpu.checkpoints(every=3600) as checkpoints:
        state, _ = checkpoints.restore({"weights": jnp.zeros(4), "step": jnp.zeros(())})
        step = jax.jit(lambda state, rows: {"weights": state["weights"] + rows.mean(), "step": state["step"] + 1})
        checkpoints.save(0, step(state, rows))


def named(cases, case):
    """Of these, or `file.py:function` of another file beside this one."""
    file, _, function = case.rpartition(":")
    return runpy.run_path(str(Path(__file__).with_name(file)))[function] if file else cases[case]


def main(cases):
    case, keywords = sys.argv[1], json.loads(sys.argv[2])
    code = 0
    faulthandler.dump_traceback_later(60)  # whoever waits for us in vain finds in our log where we stood
    try:
        outcome = {"value": named(cases, case)(**keywords)}
    except tpu.Preempted as exc:
        outcome, code = {"preempted": exc.step}, 81
    except BaseException as exc:
        import traceback

        traceback.print_exc()
        outcome, code = {"error": type(exc).__name__, "message": str(exc)}, 80
        account = Path(os.environ.get("PREFECT_TPU_SCRATCH", ""), "outcome.json")
        if account.exists():  # agree()'s thread knows why, and leaves for this host
            os._exit(json.loads(account.read_text())["exit_code"])
    Path(os.environ["OUTCOME"]).write_text(json.dumps(outcome))
    sys.stdout.flush()
    sys.stderr.flush()
    if code == 81 and "jax" in sys.modules:
        sys.modules["jax"].distributed.shutdown()
    if code:
        os._exit(code)


if __name__ == "__main__":
    main(globals())
