"""Programs that behave badly on their way to a step."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp

import prefect_tpu as tpu


@tpu.step
@jax.jit
def doubled(rows):
    return rows * 2.0


def rows(each=1):
    mesh = tpu.mesh({"data": -1})
    return jax.device_put(jnp.ones((each * mesh.size, 8)), jax.NamedSharding(mesh, jax.P("data")))


def noisy():
    """Writes into all that it has, and reads what nobody gives."""
    print("{}")
    os.write(1, b"not JSON\n")
    assert sys.stdin.read() == ""
    doubled(rows())


def kept():
    """Catches what it can, and would go on."""
    try:
        doubled(rows())
    except Exception:
        raise SystemExit("the step did not end the program") from None


def keeps_all():
    """Catches everything, and goes on to its end."""
    table = rows()
    for _ in range(3):
        with contextlib.suppress(BaseException):
            doubled(table)


def falls_over_on_its_way_out():
    try:
        doubled(rows())
    finally:
        raise RuntimeError("cannot be closed")


def in_a_thread():
    thread = threading.Thread(target=doubled, args=(rows(),))
    thread.start()
    thread.join()


def forks(batch: int = 1):
    """Its copy calls the step too."""
    table = rows(256 * batch)
    copy = os.fork()
    doubled(table)
    os.waitpid(copy, 0)


def dies():
    os.kill(os.getpid(), signal.SIGKILL)


def hangs():
    subprocess.Popen(["sleep", "3600"])
    time.sleep(3600)


def writes_everywhere():
    """Into files too that it did not open."""
    for number in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(number, b"not JSON\n")
    time.sleep(3600)


def closes_everything():
    """As programs do that make themselves daemons."""
    os.closerange(3, 64)
    time.sleep(3600)


def leaves():
    sys.exit(3)


def looks_around(batch: int = 16):
    """Sees a job with all devices on one host, as large as the slice."""
    info = tpu.info()
    tpu.join()
    assert (info.accelerator, info.hosts, info.is_leader) == ("v6e-16", 1, True), info
    assert info.data["words"].read_text() == "a b c"
    mesh = tpu.mesh()
    assert dict(mesh.shape) == {"data": 4, "tp": 4}
    with tpu.checkpoints() as checkpoints:
        state = jax.device_put(jnp.ones((batch, 8)), jax.NamedSharding(mesh, jax.P("data", "tp")))
        state, start = checkpoints.restore(state)
        assert start == 0
        doubled(state)


class Trainer:
    """Its step is a method, and plain."""

    rate = 2.0

    @tpu.step
    def step(self, table):
        return table * self.rate


def method():
    trainer = Trainer()
    trainer.step(rows())


def from_a_script():
    doubled(rows())


if __name__ == "__main__":
    assert sys.argv[1:] == ["--fast"], sys.argv
    from_a_script()
