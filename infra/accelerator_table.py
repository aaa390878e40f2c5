"""Which slices exist: TPU generations with their machines and topologies, and GPU machines.

Facts only. How a string is read, and what a slice is to a job, is said in `accelerators`.

Sources, read between 2026-06 and 2026-11: node labels, machine types and single-host topologies are those of
Google's GKE autoscaler (GoogleCloudPlatform/cluster-autoscaler, 2026-08-21); topologies, limits and numeric names
agree with xpk (2026-06-25), MaxText and the pages under https://cloud.google.com/tpu/docs. GPU machine types and
labels are those of https://cloud.google.com/compute/docs/gpus and
https://cloud.google.com/kubernetes-engine/docs/concepts/gpus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

Topology = tuple[int, ...]  # chips per dimension

CUBE = 4  # Larger three-dimensional slices are built of cubes with this many chips a side.
LONGEST_SIDE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine type of one generation.

    name, label: of GKE; None where GKE does not offer the generation.
    alone: the topology that one machine makes by itself, or None where it works in company only.
    joins: several of them make larger topologies.
    """

    name: str | None
    label: str | None
    chips: int
    alone: Topology | None
    joins: bool = False

    def makes(self, topology: Topology) -> bool:
        """Whether a slice of this topology can be made of such machines."""
        chips = prod(topology)
        return topology == self.alone or (self.joins and chips > self.chips and chips % self.chips == 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One TPU generation.

    count: what a chip adds to the number in Google's name: its TensorCores, or 1 where chips are counted.
    machines: in order of preference; the first that makes a topology is its default.
    fixed: topologies that exist by themselves.
    cubes: how many cubes a slice may have; 0 where slices are flat.
    ordered: sides must rise, as in 4x4x8.
    square_up_to: a numeric name means the squarest topology up to so many chips, the longest one above.
    also_square: sizes above it whose name means the squarest all the same.
    bare_chips: size of the bare name in the chips dialect.
    chips_names: sizes that the chips dialect reads as another topology than Google's names do.
    largest_job: chips of the largest single job that Google documents, where slices go beyond it.
    """

    name: str
    count: int
    devices_per_chip: int
    machines: tuple[Machine, ...]
    fixed: tuple[Topology, ...]
    cubes: int = 0
    ordered: bool = True
    square_up_to: int = 0
    also_square: tuple[int, ...] = ()
    bare_chips: int | None = None
    chips_names: tuple[tuple[int, Topology], ...] = ()
    largest_job: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU model: its GKE label and, by number of GPUs, the machine type."""

    label: str
    machines: Mapping[int, str] = field(default_factory=dict)


def _flat(label: str, family: str) -> tuple[Machine, ...]:
    """The machines of v5e and v6e: the 8-chip one comes first, so 2x4 is one host unless -4t is asked for."""
    return (
        Machine(name=f"{family}-1t", label=label, chips=1, alone=(1, 1)),
        Machine(name=f"{family}-8t", label=label, chips=8, alone=(2, 4)),
        Machine(name=f"{family}-4t", label=label, chips=4, alone=(2, 2), joins=True),
    )


def _solid(label: str, name: str) -> Machine:
    return Machine(name=name, label=label, chips=4, alone=(2, 2, 1), joins=True)


def _single(label: str) -> Machine:
    return Machine(name=f"{label}-standard-1t", label=label, chips=1, alone=(1, 1, 1))


_FLAT = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
_SMALL = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))

_GENERATIONS = (
    Generation(
        name="v2",
        count=2,
        devices_per_chip=2,
        machines=(Machine(name=None, label=None, chips=4, alone=(2, 2), joins=True),),
        fixed=((2, 2), (4, 4), (8, 8), (8, 16), (16, 16)),
        notes=("Cloud TPU VMs only: GKE has no label and no machine type for v2",),
    ),
    Generation(
        name="v3",
        count=2,
        devices_per_chip=2,
        machines=(
            Machine(name="ct3-hightpu-4t", label="tpu-v3-device", chips=4, alone=(2, 2)),
            Machine(name="ct3p-hightpu-4t", label="tpu-v3-slice", chips=4, alone=None, joins=True),
        ),
        fixed=((2, 2), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32)),
        bare_chips=4,
    ),
    Generation(
        name="v4",
        count=2,
        devices_per_chip=1,
        machines=(_solid("tpu-v4-podslice", "ct4p-hightpu-4t"),),
        fixed=_SMALL,
        cubes=64,
        ordered=False,
        also_square=(256, 512, 768, 1024, 2048),
        bare_chips=4,
        chips_names=((4096, (16, 16, 16)),),
    ),
    Generation(
        name="v5e",
        count=1,
        devices_per_chip=1,
        machines=_flat("tpu-v5-lite-podslice", "ct5lp-hightpu"),
        fixed=_FLAT,
        bare_chips=4,
    ),
    Generation(
        name="v5p",
        count=2,
        devices_per_chip=1,
        machines=(_solid("tpu-v5p-slice", "ct5p-hightpu-4t"),),
        fixed=_SMALL,
        cubes=140,
        square_up_to=6144,
        also_square=(6912, 8960),
        bare_chips=8,
        largest_job=6144,
    ),
    Generation(
        name="v6e",
        count=1,
        devices_per_chip=1,
        machines=_flat("tpu-v6e-slice", "ct6e-standard"),
        fixed=_FLAT,
        bare_chips=8,
    ),
    Generation(
        name="tpu7x",
        count=2,
        devices_per_chip=2,
        machines=(_single("tpu7x"), _solid("tpu7x", "tpu7x-standard-4t"), _solid("tpu7x", "tpu7x-ultranet-4t")),
        fixed=((1, 1, 1), *_SMALL),
        cubes=144,
        square_up_to=6144,
        also_square=(6912, 8192, 8960, 9216),
    ),
    Generation(
        name="tpu7",
        count=2,
        devices_per_chip=2,
        machines=(_single("tpu7"), _solid("tpu7", "tpu7-standard-4t")),
        fixed=((1, 1, 1), *_SMALL),
        cubes=4,
        square_up_to=256,
        notes=("2 JAX devices per chip is assumed from tpu7x, not verified",),
    ),
)

GENERATIONS: Mapping[str, Generation] = {generation.name: generation for generation in _GENERATIONS}
SPELLINGS: Mapping[str, str] = {"v5litepod": "v5e"}  # Google's other name

_N1 = {1: "n1-standard-4", 2: "n1-standard-8", 4: "n1-standard-16"}

GPUS: Mapping[str, Gpu] = {
    "p4": Gpu(label="nvidia-tesla-p4", machines=_N1),
    "p100": Gpu(label="nvidia-tesla-p100", machines=_N1),
    "t4": Gpu(label="nvidia-tesla-t4", machines=_N1),
    "v100": Gpu(
        label="nvidia-tesla-v100",
        machines={1: "n1-standard-8", 2: "n1-standard-16", 4: "n1-standard-32", 8: "n1-standard-64"},
    ),
    "l4": Gpu(
        label="nvidia-l4",
        machines={1: "g2-standard-4", 2: "g2-standard-24", 4: "g2-standard-48", 8: "g2-standard-96"},
    ),
    "a100": Gpu(
        label="nvidia-tesla-a100",
        machines={**{count: f"a2-highgpu-{count}g" for count in (1, 2, 4, 8)}, 16: "a2-megagpu-16g"},
    ),
    "a100-80gb": Gpu(label="nvidia-a100-80gb", machines={count: f"a2-ultragpu-{count}g" for count in (1, 2, 4, 8)}),
    "h100": Gpu(label="nvidia-h100-80gb", machines={count: f"a3-highgpu-{count}g" for count in (1, 2, 4, 8)}),
    "h100-mega": Gpu(label="nvidia-h100-mega-80gb", machines={8: "a3-megagpu-8g"}),
    "h200": Gpu(label="nvidia-h200-141gb", machines={8: "a3-ultragpu-8g"}),
    "b200": Gpu(label="nvidia-b200", machines={8: "a4-highgpu-8g"}),
    "gb200": Gpu(label="nvidia-gb200", machines={4: "a4x-highgpu-4g"}),
    "rtx-pro-6000": Gpu(
        label="nvidia-rtx-pro-6000",
        machines={1: "g4-standard-48", 2: "g4-standard-96", 4: "g4-standard-192", 8: "g4-standard-384"},
    ),
}


def written(topology: Topology) -> str:
    """A topology as people write it: `2x2x4`."""
    return "x".join(str(side) for side in topology)


@lru_cache
def topologies(generation: Generation) -> tuple[Topology, ...]:
    """Every topology that a generation's slices may have, the smallest first."""
    sides = range(1, LONGEST_SIDE // CUBE + 1)
    built = (
        (CUBE * a, CUBE * b, CUBE * c)
        for a in sides
        for b in sides
        for c in range(1, min(LONGEST_SIDE // CUBE, generation.cubes // (a * b)) + 1)
        if not generation.ordered or a <= b <= c
    )
    return tuple(sorted({*generation.fixed, *built}, key=lambda topology: (prod(topology), topology)))


@lru_cache
def topologies_by_chips(generation: Generation) -> Mapping[int, tuple[Topology, ...]]:
    """The topologies of each size."""
    sizes: dict[int, list[Topology]] = {}
    for topology in topologies(generation):
        sizes.setdefault(prod(topology), []).append(topology)
    return {chips: tuple(group) for chips, group in sizes.items()}


@lru_cache
def named_topologies(generation: Generation) -> Mapping[int, Topology]:
    """The curated table: by chips, the one topology that a numeric name means.

    The rule was fitted to xpk's names of 2026-06-25, and `tests/oracles/accelerators.tsv` holds it to them.
    """
    return {chips: _named(generation, chips, group) for chips, group in topologies_by_chips(generation).items()}


def squarest(generation: Generation, chips: int) -> Topology:
    """The topology of a size whose shortest sides are longest."""
    return max(_rising(topologies_by_chips(generation)[chips]))


def _named(generation: Generation, chips: int, group: tuple[Topology, ...]) -> Topology:
    if chips <= generation.square_up_to or chips in generation.also_square:
        return squarest(generation, chips)
    return min(_rising(group))


def _rising(group: tuple[Topology, ...]) -> list[Topology]:
    return [topology for topology in group if list(topology) == sorted(topology)] or list(group)
