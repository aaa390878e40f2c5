"""Is this machine fit for hosts of jobs? Its memory, its disk, its slices and GPUs, and JAX."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

from prefect_tpu.infra.backends.local_gpus import VISIBLE, in_words, machine_gpus
from prefect_tpu.infra.backends.local_limits import FREE_DISK_BYTES, HOST_MEMORY_BYTES
from prefect_tpu.infra.backends.local_slices import LocalSlices, slice_count
from prefect_tpu.infra.checks import Check, Look, at_least, fail, ok, warn
from prefect_tpu.infra.places import data_folder, existing
from prefect_tpu.infra.storage import BUCKET, open_storage

GIB = 2**30
JAX_SECONDS = 12.0


def looks(output: str, environment: Mapping[str, str]) -> Mapping[str, Look]:
    """The checks by name, in the order in which they are told."""
    where = {} if output.startswith(BUCKET) else {"disk": lambda: disk(output)}
    return {
        "memory": memory,
        **where,
        "slices": lambda: slices(environment),
        "gpus": lambda: gpus(environment),
        "jax": lambda: jax(environment),
    }


def memory() -> Check:
    there = psutil.virtual_memory()
    found = f"{there.available / GIB:.1f} of {there.total / GIB:.1f} GiB free"
    return at_least(
        "memory",
        found,
        there.available,
        warns_below=8 * HOST_MEMORY_BYTES,
        fails_below=HOST_MEMORY_BYTES,
        advice=f"Each host of a local slice takes {HOST_MEMORY_BYTES // 2**20} MiB before the program's own arrays.",
    )


def disk(output: str) -> Check:
    place = existing(Path(open_storage(output).url))
    there = shutil.disk_usage(place)
    return at_least(
        "disk",
        f"{there.free / GIB:.1f} of {there.total / GIB:.1f} GiB free below {output}",
        there.free,
        warns_below=5 * GIB,
        fails_below=FREE_DISK_BYTES,
        advice="Delete old jobs, or name another folder with --output or PREFECT_TPU_OUTPUT.",
    )


def slices(environment: Mapping[str, str]) -> Check:
    count = slice_count(environment)
    owners = LocalSlices(data_folder(environment) / "slices", count).owners()
    taken = [owner for owner in owners if owner is not None]
    found = f"{count} lent, {count - len(taken)} free" + (f", taken by {', '.join(taken)}" if taken else "")
    if len(taken) == count:
        return warn("slices", found, "Jobs wait until one is given back; PREFECT_TPU_LOCAL_SLICES lends more.")
    return ok("slices", found)


def gpus(environment: Mapping[str, str]) -> Check:
    found = machine_gpus(environment)
    if found:
        return ok("gpus", in_words(found))
    choice = f", {VISIBLE} is {environment[VISIBLE]!r}" if VISIBLE in environment else ""
    return ok("gpus", f"none{choice}: CPU devices stand in for l4, h100 and the like")


def jax(environment: Mapping[str, str]) -> Check:
    """In a process of its own: JAX keeps what it finds, and may hang where an accelerator is taken."""
    words = [
        sys.executable,
        "-P",
        "-c",
        "import jax; print(jax.__version__, jax.default_backend(), jax.device_count())",
    ]
    try:
        ended = subprocess.run(
            words,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=JAX_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return warn("jax", f"no answer within {JAX_SECONDS:.0f} s", "Look whether another process has the accelerator.")
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"])[-1]
        return fail("jax", f"cannot be used: {last}", "Install it again: python -m pip install --upgrade jax")
    version, backend, count = ended.stdout.split()[-3:]
    found = f"{version} on {backend}, {count} device{'s' if count != '1' else ''}"
    if backend == "cpu" and machine_gpus(environment):
        return warn("jax", f"{found}, though there are GPUs", "For them: python -m pip install 'jax[cuda13]'")
    return ok("jax", found)
