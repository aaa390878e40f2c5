"""How much of a TPU machine may a host ask for?

vCPUs and memory by machine type, as Google's own autoscaler counts them, or less where the documentation says less.
https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus, read 2026-11-28
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What one VM has: vCPUs, and memory in GB of 10^9 bytes, the smaller reading of Google's "GB"."""

    cpus: int
    memory_gb: int


# Of the smallest machine here (24 vCPUs, 48 GB) GKE keeps a tenth of the memory for the system, of the larger ones
# 3 to 4 %; its DaemonSets ask for another GB and a vCPU. Four fifths fit everywhere. They are asked for, never a limit:
# the chips keep other pods away, and the program may use what is there.
SHARE = 0.8

_MACHINES = {
    "ct3-hightpu-4t": Machine(cpus=96, memory_gb=340),
    "ct3p-hightpu-4t": Machine(cpus=48, memory_gb=340),
    "ct4p-hightpu-4t": Machine(cpus=240, memory_gb=407),
    "ct5lp-hightpu-1t": Machine(cpus=24, memory_gb=48),
    "ct5lp-hightpu-4t": Machine(cpus=112, memory_gb=192),
    "ct5lp-hightpu-8t": Machine(cpus=224, memory_gb=384),
    "ct5p-hightpu-4t": Machine(cpus=208, memory_gb=448),
    "ct6e-standard-1t": Machine(cpus=44, memory_gb=176),
    "ct6e-standard-4t": Machine(cpus=180, memory_gb=720),
    "ct6e-standard-8t": Machine(cpus=180, memory_gb=1440),
    "tpu7x-standard-1t": Machine(cpus=56, memory_gb=248),
    "tpu7x-standard-4t": Machine(cpus=224, memory_gb=960),
    "tpu7-standard-1t": Machine(cpus=56, memory_gb=240),
    "tpu7-standard-4t": Machine(cpus=224, memory_gb=960),
}


def room(machine_type: str | None) -> dict[str, str]:
    """The cpu and memory that a host asks for on such a machine; nothing where it is not known."""
    machine = _MACHINES.get(machine_type or "")
    if machine is None:
        return {}
    return {"cpu": str(int(machine.cpus * SHARE)), "memory": f"{int(machine.memory_gb * SHARE)}G"}
