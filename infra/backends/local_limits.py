"""Has this machine what a slice takes: hosts, memory, disk?"""

from __future__ import annotations

from pathlib import Path

import psutil

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.backends.local_gpus import VISIBLE
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.places import existing
from prefect_tpu.infra.policy.quota import Limit

HOST_MEMORY_BYTES = 250 * 2**20  # a JAX process before the program's own arrays (measured: 190 MiB)
FREE_DISK_BYTES = 256 * 2**20


def limits(output: str, *, hosts: int, most_hosts: int) -> tuple[Limit, ...]:
    """What the machine as a whole must have; what others use of it just now does not count, but for the disk."""
    number = Limit(what=f"hosts on one machine ({Env.MAX_HOSTS})", unit="hosts", needed=hosts, available=most_hosts)
    disk = _mebibytes(f"free disk below {output}", FREE_DISK_BYTES, psutil.disk_usage(existing(Path(output))).free)
    return (number, _memory("memory", hosts, psutil.virtual_memory().total), disk)


def gpus(shape: Slice, of_a_slice: int) -> Limit:
    """What one slice of this machine has of its GPUs."""
    what = f"GPUs of a slice ({Env.SLICES} shares them out; with {VISIBLE}= CPU devices stand in)"
    return Limit(what=what, unit="GPUs", needed=shape.chips, available=of_a_slice)


def free_memory(hosts: int) -> Limit:
    """What must be free before the hosts start."""
    return _memory("free memory", hosts, psutil.virtual_memory().available)


def _memory(what: str, hosts: int, available: int) -> Limit:
    return _mebibytes(what, hosts * HOST_MEMORY_BYTES, available)


def _mebibytes(what: str, needed: int, available: int) -> Limit:
    return Limit(what=what, unit="MiB", needed=needed // 2**20, available=available // 2**20)
