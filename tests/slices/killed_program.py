"""Savers that are killed in the midst of a save, for test_killed_saves.py: `python killed_program.py FOLDER STRIDE`.

Each is a fork of this process, which has imported what they need and used none of it. Python's own audit tells a saver
of each write before it happens, Orbax's and ours: at the one that is its turn it kills itself, as nobody can catch.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint  # noqa: F401

import prefect_tpu as tpu
import prefect_tpu.infra.training.checkpoints  # noqa: F401

WRITES = {"open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"}
TWO = {"os.link", "os.rename"}  # of these, with two names
SIZE = 4096
KEPT = 2


def main(folder: str, stride: int) -> None:
    for _ in range(KEPT):
        fork(folder, None)
    whole = fork(folder, None)  # deletes one too, as each does from now on
    step, found = whole["start"], []
    for turn in range(1, len(whole["writes"]) + 1, stride):
        killed = fork(folder, turn)
        after = fork(folder, None)
        found.append({"turn": turn, "before": step, "killed by": killed["signal"], **after})
        step = after["start"]
    sys.stdout.write(json.dumps({"writes": whole["writes"], "found": found}))


def fork(folder: str, turn: int | None) -> dict[str, object]:
    """What a saver said until it ended; `start` is the step that it did and has saved, where it was not killed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            save(folder, turn, write)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(write)
    with open(read) as pipe:
        said = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    number = os.waitstatus_to_exitcode(status)
    assert number in (0, -signal.SIGKILL), said
    return {"signal": -number, **{name: fact for each in said for name, fact in each.items()}}


def save(folder: str, turn: int | None, out: int) -> None:
    writes = listen(folder, turn)
    with tpu.checkpoints(every=1e-6, keep=KEPT, directory=folder) as checkpoints:
        state, start = checkpoints.restore(state_of(-1))
        restored = checkpoints.restored
        say(out, start=start, values=values(state), metrics=restored and restored.metrics)
        checkpoints.save(start, state_of(start), loss=start)
    say(out, writes=writes)


def listen(folder: str, turn: int | None) -> list[str]:
    """The writes below the folder from now on, as they come."""
    counted, found = itertools.count(1), list[str]()

    def hear(event: str, given: tuple[object, ...]) -> None:
        if event in WRITES and is_there(event, given, folder):
            found.append(" ".join([event, *(os.path.basename(str(name)) for name in given[: 1 + (event in TWO)])]))
            if next(counted) == turn:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    return found


def is_there(event: str, given: tuple[object, ...], folder: str) -> bool:
    if event == "open" and not (isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)):
        return False
    is_of_a_tree = event in ("os.remove", "os.rmdir") and given[-1] != -1  # seen from a folder that is deleted
    return is_of_a_tree or str(given[0]).startswith(folder)


def state_of(step: int) -> dict[str, object]:
    return {
        "weights": jnp.full(SIZE, step, jnp.float32),
        "moments": [jnp.full(3, step), np.full(2, step)],
        "step": step,
    }


def values(state: dict[str, object]) -> list[float]:
    """All numbers that are in it, each once."""
    return sorted({float(value) for leaf in jax.tree.leaves(state) for value in np.ravel(leaf)})


def say(out: int, **facts: object) -> None:
    os.write(out, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()), int(sys.argv[2]))
