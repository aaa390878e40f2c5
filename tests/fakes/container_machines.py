"""Which machines does Google have for node pools, and which topologies are made of them?

Facts of GKE's autoscaler and of xpk, written down a second time on purpose: what our own table says is checked here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

_FLAT = {"1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"}
_FLAT_V3 = {"2x2", "4x4", "4x8", "8x8", "8x16", "16x16", "16x32", "32x32"}
_SMALL = {"1x1x1", "2x2x1", "2x2x2", "2x2x4", "2x4x4"}
_CUBES = {"ct4p": 64, "ct5p": 140, "tpu7x": 144, "tpu7": 4}
_LONGEST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine type. alone: the topology that one makes by itself. gpu: the model that is built in."""

    name: str
    cpus: int
    memory_gb: int
    chips: int = 0
    label: str | None = None
    alone: str | None = None
    gpu: str | None = None

    @property
    def family(self) -> str:
        return self.name.partition("-")[0]

    @property
    def is_tpu(self) -> bool:
        return self.label is not None

    @property
    def is_for_flex_start(self) -> bool:
        """Whether Dynamic Workload Scheduler gives such machines, by flex-start or by a queue."""
        return self.family not in ("ct3", "ct3p", "ct4p")

    @property
    def wants_workload_policy(self) -> bool:
        """Whether several of them are joined by a workload policy, and never by a compact placement."""
        return self.family in ("tpu7x", "tpu7")

    @property
    def takes_workload_policy(self) -> bool:
        return self.family in ("tpu7x", "tpu7", "ct6e")

    @property
    def wants_hyperdisk(self) -> bool:
        return self.family in ("tpu7x", "tpu7", "ct6e")

    def hosts(self, topology: str) -> int | None:
        """How many make a slice of this topology; None where no slice of such machines has it."""
        chips = prod(map(int, topology.split("x")))
        if topology == self.alone:
            return 1
        joins = self.chips == 4 and self.family not in ("ct3",)
        exists = joins and chips > self.chips and _exists(self.family, topology)
        return chips // self.chips if exists else None


def find(name: str) -> Machine | None:
    """The machine type of this name; None where Google has none."""
    return _TPUS.get(name) or _gpu(name) or _plain(name)


def _exists(family: str, topology: str) -> bool:
    if family not in _CUBES:
        return topology in (_FLAT_V3 if family == "ct3p" else _FLAT)
    sides = [int(side) for side in topology.split("x")]
    if topology in _SMALL:
        return True
    is_cubic = len(sides) == 3 and all(side % 4 == 0 and side <= _LONGEST for side in sides)
    is_ordered = family == "ct4p" or sides == sorted(sides)
    return is_cubic and is_ordered and prod(sides) // 64 <= _CUBES[family]


def _tpu(name: str, label: str, alone: str | None, cpus: int, memory_gb: int) -> Machine:
    chips = int(name.rpartition("-")[2].removesuffix("t"))
    return Machine(name=name, cpus=cpus, memory_gb=memory_gb, chips=chips, label=label, alone=alone)


_TPUS = {
    machine.name: machine
    for machine in (
        _tpu("ct3-hightpu-4t", "tpu-v3-device", "2x2", 96, 340),
        _tpu("ct3p-hightpu-4t", "tpu-v3-slice", None, 48, 340),
        _tpu("ct4p-hightpu-4t", "tpu-v4-podslice", "2x2x1", 240, 407),
        _tpu("ct5lp-hightpu-1t", "tpu-v5-lite-podslice", "1x1", 24, 48),
        _tpu("ct5lp-hightpu-4t", "tpu-v5-lite-podslice", "2x2", 112, 192),
        _tpu("ct5lp-hightpu-8t", "tpu-v5-lite-podslice", "2x4", 224, 384),
        _tpu("ct5p-hightpu-4t", "tpu-v5p-slice", "2x2x1", 208, 448),
        _tpu("ct6e-standard-1t", "tpu-v6e-slice", "1x1", 44, 176),
        _tpu("ct6e-standard-4t", "tpu-v6e-slice", "2x2", 180, 720),
        _tpu("ct6e-standard-8t", "tpu-v6e-slice", "2x4", 180, 1440),
        _tpu("tpu7x-standard-1t", "tpu7x", "1x1x1", 56, 248),
        _tpu("tpu7x-standard-4t", "tpu7x", "2x2x1", 224, 960),
        _tpu("tpu7-standard-1t", "tpu7", "1x1x1", 56, 240),
        _tpu("tpu7-standard-4t", "tpu7", "2x2x1", 224, 960),
    )
}

# https://cloud.google.com/compute/docs/gpus, read 2026-11-28: the number in a name is of GPUs, or of vCPUs.
_BY_GPUS = {
    "a2-highgpu": ("nvidia-tesla-a100", {1, 2, 4, 8}, 12, 85),
    "a2-megagpu": ("nvidia-tesla-a100", {16}, 6, 85),
    "a2-ultragpu": ("nvidia-a100-80gb", {1, 2, 4, 8}, 12, 170),
    "a3-highgpu": ("nvidia-h100-80gb", {1, 2, 4, 8}, 26, 234),
    "a3-megagpu": ("nvidia-h100-mega-80gb", {8}, 26, 234),
    "a3-ultragpu": ("nvidia-h200-141gb", {8}, 28, 369),
    "a4-highgpu": ("nvidia-b200", {8}, 28, 496),
    "a4x-highgpu": ("nvidia-gb200", {4}, 35, 221),
}
_BY_CPUS = {
    "g2-standard": ("nvidia-l4", {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}),
    "g4-standard": ("nvidia-rtx-pro-6000", {48: 1, 96: 2, 192: 4, 384: 8}),
}
_PLAIN = re.compile(r"(e2|n1|n2|n2d|n4|c2|c3|c4)-(standard|highmem|highcpu)-([1-9][0-9]{0,2})")


def _gpu(name: str) -> Machine | None:
    series, _, number = name.rpartition("-")
    count = int("".join(filter(str.isdigit, number)) or 0)
    if number == f"{count}g" and series in _BY_GPUS:
        model, counts, cpus, memory = _BY_GPUS[series]
        if count in counts:
            return Machine(name=name, cpus=cpus * count, memory_gb=memory * count, chips=count, gpu=model)
    if number == str(count) and series in _BY_CPUS and count in _BY_CPUS[series][1]:
        model, gpus = _BY_CPUS[series]
        return Machine(name=name, cpus=count, memory_gb=4 * count, chips=gpus[count], gpu=model)
    return None


def _plain(name: str) -> Machine | None:
    found = _PLAIN.fullmatch(name)
    return Machine(name=name, cpus=int(found[3]), memory_gb=4 * int(found[3])) if found else None
