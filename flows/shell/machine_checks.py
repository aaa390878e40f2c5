"""Is this machine fit for jobs? Its resources, its packages, its slices and the place where jobs write."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path

import psutil

from prefect_tpu.flows.shell.checks import Check, Look, at_least, fail, ok, warn
from prefect_tpu.infra.backends.local_limits import FREE_DISK_BYTES, HOST_MEMORY_BYTES, existing
from prefect_tpu.infra.backends.local_slices import LocalSlices, data_folder, slice_count
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import open_storage

PYTHON = (3, 11)
GIB = 2**30
JAX_SECONDS = 12.0
FEW_FILES = 1024
SHARED_MEMORY_BYTES = 64 * 2**20
CLOCK_SECONDS = 2.0  # files whose times are further from this machine's clock mislead `list` and `reap`


def machine(output: str) -> dict[str, Look]:
    """The checks by name, in the order in which they are told."""
    return {
        "python": python,
        "packages": packages,
        "cpus": cpus,
        "memory": memory,
        "disk": lambda: disk(output),
        "output": lambda: writable(output),
        "slices": lambda: slices(os.environ),
        "open files": open_files,
        "shared memory": shared_memory,
        "jax": jax,
    }


def python() -> Check:
    found = f"{platform.python_version()} in {sys.executable}"
    if sys.platform == "win32":
        return fail("python", found, "prefect-tpu does not run on Windows: use Linux, or WSL.")
    if sys.version_info < PYTHON:
        return fail("python", found, "Use Python 3.11 or newer.")
    return ok("python", found)


def packages() -> Check:
    """Each requirement of ours against what is installed."""
    wanted = [text for text in metadata.requires("prefect-tpu") or [] if "extra ==" not in text]
    old = [said for text in wanted if (said := too_old(text, _installed)) is not None]
    shown = ", ".join(f"{name} {_installed(name)}" for name in ("prefect-tpu", "prefect", "jax", "orbax-checkpoint"))
    if old:
        return fail("packages", f"{shown}; {', '.join(old)}", "Upgrade: python -m pip install --upgrade prefect-tpu")
    return ok("packages", shown)


def too_old(requirement: str, installed: Callable[[str], str | None]) -> str | None:
    """`orbax-checkpoint 0.1 is older than 0.12`; None where the package is new enough."""
    match = re.match(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)", requirement)
    if match is None:
        return None
    name, least = match[1], match[2]
    found = installed(name)
    if found is None:
        return f"{name} is not installed"
    return f"{name} {found} is older than {least}" if _numbers(found) < _numbers(least) else None


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def cpus() -> Check:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = psutil.getloadavg()[0]
    found = f"{usable} CPU{'s' if usable > 1 else ''}, {busy:.1f} busy"
    if busy > 2 * usable:
        return warn("cpus", found, "Other programs use them: jobs will be slow.")
    return ok("cpus", found)


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
    place = existing(open_storage(output).root)
    there = shutil.disk_usage(place)
    return at_least(
        "disk",
        f"{there.free / GIB:.1f} of {there.total / GIB:.1f} GiB free below {output}",
        there.free,
        warns_below=5 * GIB,
        fails_below=FREE_DISK_BYTES,
        advice="Delete old jobs, or name another folder with --output or PREFECT_TPU_OUTPUT.",
    )


def writable(output: str) -> Check:
    """Create-only writes are the only lock there is: they are tried, and what was written is removed."""
    storage = open_storage(existing(open_storage(output).root))
    name = f".tmp-doctor-{uuid.uuid4().hex}"
    try:
        first, second = (storage.put_if_absent(name, b"x") for _ in range(2))
        skew = abs(storage.path(name).stat().st_mtime - time.time())
    except PlatformError as exc:
        return fail("output", f"{output} cannot be written: {exc}", "Name another folder with --output.")
    finally:
        storage.delete(name)
    if not first or second:
        return fail("output", f"{output} takes no create-only writes", "Use a local disk, or NFS 4.")
    if skew > CLOCK_SECONDS:
        return warn("output", f"{output} is writable; its clock is {skew:.0f} s off", "Let both keep time by NTP.")
    return ok("output", f"{output} is writable, create-only too")


def slices(environment: Mapping[str, str]) -> Check:
    count = slice_count(environment)
    owners = LocalSlices(data_folder(environment) / "slices", count).owners()
    taken = [owner for owner in owners if owner is not None]
    found = f"{count} lent, {count - len(taken)} free" + (f", taken by {', '.join(taken)}" if taken else "")
    if len(taken) == count:
        return warn("slices", found, "Jobs wait until one is given back; PREFECT_TPU_LOCAL_SLICES lends more.")
    return ok("slices", found)


def open_files() -> Check:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = "no limit" if soft == resource.RLIM_INFINITY else f"{soft} at once"
    if soft != resource.RLIM_INFINITY and soft < FEW_FILES:
        return warn("open files", found, f"Raise it: ulimit -n {FEW_FILES if hard < 0 else min(hard, 65536)}")
    return ok("open files", found)


def shared_memory() -> Check:
    if not Path("/dev/shm").is_dir():
        return ok("shared memory", "not used on this system")
    free = shutil.disk_usage("/dev/shm").free
    return at_least(
        "shared memory",
        f"{free / GIB:.1f} GiB free in /dev/shm",
        free,
        warns_below=SHARED_MEMORY_BYTES,
        fails_below=0,
        advice="Data loaders with worker processes need it; containers take --shm-size.",
    )


def jax() -> Check:
    """In a process of its own: JAX keeps what it finds, and may hang where an accelerator is taken."""
    words = [
        sys.executable,
        "-P",
        "-c",
        "import jax; print(jax.__version__, jax.default_backend(), jax.device_count())",
    ]
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=JAX_SECONDS, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return warn("jax", f"no answer within {JAX_SECONDS:.0f} s", "Look whether another process has the accelerator.")
    if ended.returncode != 0:
        last = (ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"])[-1]
        return fail("jax", f"cannot be used: {last}", "Install it again: python -m pip install --upgrade jax")
    version, backend, count = ended.stdout.split()[-3:]
    return ok("jax", f"{version} on {backend}, {count} device{'s' if count != '1' else ''}")
