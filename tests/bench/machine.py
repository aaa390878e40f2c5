"""On what was it measured? The machine and the versions that the figures depend on."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import psutil

PACKAGES = ("prefect-tpu", "prefect", "jax", "orbax-checkpoint")


def facts() -> list[tuple[str, str]]:
    """(name, value), nothing that names the machine or a place on it."""
    cores, memory = (
        os.process_cpu_count() if hasattr(os, "process_cpu_count") else os.cpu_count(),
        psutil.virtual_memory(),
    )
    return [
        ("Machine", f"{platform.machine()}, {cores} cores, {memory.total / 2**30:.0f} GiB, {platform.system()}"),
        ("Python", platform.python_version()),
        *((name, metadata.version(name)) for name in PACKAGES),
    ]
