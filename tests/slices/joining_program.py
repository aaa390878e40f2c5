"""One host's program for test_joining.py: `python joining_program.py CASE KEYWORDS`, outcome as JSON in $OUTCOME."""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import prefect_tpu as tpu
from prefect_tpu.infra.training import agreement

NUMBERS = (0, -1, 2**31, 3 * 10**9, -(2**40), 2**62)


def joined():
    """A port of torch's own stays torch's; threads join once; what all hosts add up shows that they are together."""
    before = tpu.info()
    with socket.socket() as store:
        if "MASTER_PORT" in os.environ and before.is_leader:
            store.bind(("127.0.0.1", int(os.environ["MASTER_PORT"])))
            store.listen()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: tpu.join(), range(2)))
        tpu.join()
    import jax

    return {
        "before": [before.host, before.hosts, before.inside_job],
        "jax": [jax.process_index(), jax.process_count(), jax.device_count()],
        "sum": total(tpu.mesh()),
        "from the leader": agreement.from_leader([number + jax.process_index() for number in NUMBERS]),
    }


def forked():
    """What join() says in a child of a process that has joined; what it is there to say where it has not."""
    said = [in_a_fork(tpu.join)]
    tpu.join()
    return [*said, in_a_fork(tpu.join)]


def in_a_fork(call):
    """The child writes a line: what was raised, or that nothing was."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's and JAX's own, of threads that the child has not
        child = os.fork()
    if child == 0:
        try:
            call()
            said = "nothing"
        except BaseException as exc:
            said = f"{type(exc).__name__}: {exc}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text


def total(mesh):
    """The number of devices, as they add it up together."""
    import jax
    import numpy as np

    everywhere = jax.NamedSharding(mesh, jax.P(mesh.axis_names))
    ones = jax.make_array_from_callback((mesh.size,), everywhere, lambda where: np.ones(mesh.size, np.float32)[where])
    return float(jax.jit(lambda x: x.sum(), out_shardings=jax.NamedSharding(mesh, jax.P()))(ones))


def meshes(specs):
    """Of each spec the devices by number, or why it is refused; and what JAX's own hybrid mesh would be."""
    tpu.join()
    import jax
    from jax.experimental import mesh_utils

    found = []
    for keywords in specs:
        try:
            mesh = tpu.mesh(**keywords)
        except tpu.UsageError as exc:
            found.append(str(exc))
            continue
        found.append([list(mesh.axis_names), numbers(mesh.devices), [str(kind) for kind in mesh.axis_types]])
    hybrid = mesh_utils.create_hybrid_device_mesh((2, 1), (1, 2), jax.devices(), process_is_granule=True)
    return {"meshes": found, "hybrid": numbers(hybrid), "sum": total(tpu.mesh())}


def numbers(devices):
    """Places in JAX's own list."""
    import jax

    return [[jax.devices().index(device) for device in row] for row in devices]


def main():
    case, keywords = sys.argv[1], json.loads(sys.argv[2])
    faulthandler.dump_traceback_later(60)
    code = 0
    try:
        outcome = {"value": globals()[case](**keywords)}
    except Exception as exc:
        outcome, code = {"error": type(exc).__name__, "message": str(exc)}, 80
    Path(os.environ["OUTCOME"]).write_text(json.dumps(outcome))
    sys.stdout.flush()
    sys.stderr.flush()
    if code:  # JAX's own exit waits for peers that may be gone
        os._exit(code)


if __name__ == "__main__":
    main()
