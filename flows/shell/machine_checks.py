"""Is this machine fit to ask for jobs? Its Python, its packages, its limits and the place where jobs write."""

from __future__ import annotations

import os
import platform
import re
import resource
import shutil
import sys
import time
import uuid
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import psutil

from prefect_tpu.infra.checks import Check, Look, at_least, fail, ok, warn
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.places import existing
from prefect_tpu.infra.storage import Storage, local_folder, open_storage

PYTHON = (3, 11)
GIB = 2**30
FEW_FILES = 1024
SHARED_MEMORY_BYTES = 64 * 2**20
CLOCK_SECONDS = 2.0  # files whose times are further from this machine's clock mislead `list` and `reap`


def machine(output: str) -> dict[str, Look]:
    """The checks by name, in the order in which they are told."""
    return {
        "python": python,
        "packages": packages,
        "cpus": cpus,
        "open files": open_files,
        "shared memory": shared_memory,
        "output": lambda: writable(output),
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


def writable(output: str) -> Check:
    """Create-only writes are the only lock there is: they are tried, and what was written is removed."""
    storage = _there(open_storage(output))
    name = f".tmp-doctor-{uuid.uuid4().hex}"
    try:
        first, second = (storage.put_if_absent(name, b"x") for _ in range(2))
        skew = abs((storage.changed(name) or 0.0) - time.time())
    except PlatformError as exc:
        return fail("output", f"{output} cannot be written: {exc}", "Name another place with --output.")
    finally:
        storage.delete(name)
    if not first or second:
        return fail("output", f"{output} takes no create-only writes", "Use a local disk, or NFS 4.")
    if skew > CLOCK_SECONDS:
        return warn("output", f"{output} is writable; its clock is {skew:.0f} s off", "Let both keep time by NTP.")
    return ok("output", f"{output} is writable, create-only too")


def _there(storage: Storage) -> Storage:
    """The nearest folder that is there: the output itself is made later. A bucket needs no folders."""
    folder = local_folder(storage)
    return storage if folder is None else open_storage(existing(folder))


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
