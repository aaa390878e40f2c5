"""What an accelerator string stands for: `resolve("v5p-32")` is a `Slice`.

    [tpu-|gpu-] NAME [@MACHINE-TYPE] [:CAPACITY]        in any case

    NAME      v5p-32 · v5litepod-16 · tpu7x-128     a named size; the number counts as Google counts it
              v5p-2x2x4 · v6e-4x4                   a topology
              l4 · a100x4 · h100x8                  GPUs of one machine
              cpu · cpu-2x1                         this machine: hosts x devices of each
    MACHINE   v6e-8@ct6e-standard-4t                two hosts of four chips instead of one of eight
    CAPACITY  spot · on-demand · reserved[=NAME] · flex-start · queue

Google's numbers count TensorCores on v2, v3, v4, v5p, tpu7x and tpu7, and chips on v5e and v6e;
with `dialect="chips"` they count chips everywhere, as Kinetic's do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import prod

from prefect_tpu.infra import accelerator_errors as errors
from prefect_tpu.infra.accelerator_table import (
    GENERATIONS,
    GPUS,
    SPELLINGS,
    Generation,
    Machine,
    Topology,
    named_topologies,
    squarest,
    topologies,
    topologies_by_chips,
    written,
)

DIALECTS = ("google", "chips")

_PREFIXES = ("tpu-", "tpu:", "gpu-", "gpu:")
_CAPACITY = re.compile(r"spot|on-demand|flex-start|queue|reserved(=[a-z0-9][a-z0-9/._-]*)?")
_NUMBER = re.compile(r"[1-9][0-9]{0,5}")
_TOPOLOGY = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
_CPU = re.compile(r"cpu(?:-([1-9][0-9]{0,2})x([1-9][0-9]{0,2}))?")
_GPU = re.compile(r"(.+?)(?:x([1-9][0-9]?))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The chips that one accelerator string stands for.

    name: its one canonical name, Google's where it has a number; two spellings of a slice are equal.
    platform: `tpu`, `gpu` or `cpu`.
    topology: sides in chips, as in `2x2x4`; None for GPUs.
    machine_type, gke_accelerator: GKE's values, or None where GKE has none.
    jax_devices: what `jax.device_count()` says on the whole slice.
    capacity: `spot`, `on-demand`, `reserved`, `reserved=NAME`, `flex-start`, `queue`, or None where nothing was said.
    """

    name: str
    platform: str
    generation: str
    topology: str | None
    machine_type: str | None
    chips: int
    hosts: int
    chips_per_host: int
    jax_devices: int
    gke_accelerator: str | None
    capacity: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def devices_per_host(self) -> int:
        """JAX devices that each host finds."""
        return self.jax_devices // self.hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """An accelerator string taken apart; `text` is the whole of it, for messages."""

    text: str
    platform: str | None
    body: str
    machine: str | None
    capacity: str | None
    dialect: str


_MIG = re.compile(r"\bmig\b|\d+g\.\d+gb", re.IGNORECASE)  # as NVIDIA names partitions of a GPU


def resolve(name: str, dialect: str = "google", machine_type: str | None = None) -> Slice:
    """The slice behind an accelerator string.

    Args:
        name: Such as `v5p-32`, `v6e-2x4:spot`, `h100x8` or `cpu`.
        dialect: What the number of a TPU name counts: `google` as Google does, `chips` always chips.
        machine_type: The GKE machine type to make it of, where there is a choice; `NAME@MACHINE-TYPE` says the same.

    Raises:
        UsageError: No such slice exists; the message names the nearest ones.
    """
    if dialect not in DIALECTS:
        raise errors.unknown_dialect(dialect, DIALECTS)
    if _MIG.search(name):
        raise errors.part_of_a_gpu(name)
    asked = _take_apart(name, dialect, machine_type)
    found = _find(asked)
    if asked.platform and asked.platform != found.platform:
        raise errors.wrong_prefix(name, asked.platform, found.name)
    if asked.capacity and found.platform == "cpu":
        raise errors.no_capacity_for_cpu(name)
    return replace(found, capacity=asked.capacity)


def curated_names(dialect: str = "google") -> tuple[str, ...]:
    """The names worth listing: every named TPU size, every GPU machine, and `cpu`."""
    sizes = (
        _numbered_name(generation, chips, dialect)
        for generation in GENERATIONS.values()
        for chips in named_topologies(generation)
    )
    return (*sizes, *_gpu_names(), "cpu")


def every_name() -> tuple[str, ...]:
    """The curated names and every topology; only machine types, capacities and `cpu-HxD` come on top."""
    shapes = (
        f"{generation.name}-{written(topology)}"
        for generation in GENERATIONS.values()
        for topology in topologies(generation)
    )
    return (*curated_names(), *shapes)


def _numbered_name(generation: Generation, chips: int, dialect: str = "google") -> str:
    return f"{generation.name}-{chips * generation.count if dialect == 'google' else chips}"


def _gpu_names() -> tuple[str, ...]:
    return tuple(_gpu_name(model, count) for model, gpu in GPUS.items() for count in gpu.machines)


def _gpu_name(model: str, count: int) -> str:
    return model if count == 1 else f"{model}x{count}"


def _take_apart(name: str, dialect: str, machine_type: str | None) -> _Asked:
    text = name.strip().lower()
    platform = text[:3] if text.startswith(_PREFIXES) else None
    rest = text[4:] if platform else text
    rest, has_capacity, capacity = rest.partition(":")
    body, has_machine, machine = rest.partition("@")
    if has_capacity and not _CAPACITY.fullmatch(capacity):
        raise errors.unknown_capacity(name, capacity)
    wanted = (machine_type or "").lower()
    if has_machine and not machine:
        raise errors.no_machine_type(name)
    if machine and wanted not in ("", machine):
        raise errors.two_machine_types(name, wanted)
    return _Asked(
        text=name,
        platform=platform,
        body=body,
        machine=machine or wanted or None,
        capacity=capacity or None,
        dialect=dialect,
    )


def _find(asked: _Asked) -> Slice:
    if match := _CPU.fullmatch(asked.body):
        return _cpu(asked, int(match[1] or 1), int(match[2] or 1))
    head, _, size = asked.body.partition("-")
    if generation := GENERATIONS.get(SPELLINGS.get(head, head)):
        return _tpu(asked, generation, size)
    match = _GPU.fullmatch(asked.body)
    models = {gpu.label: model for model, gpu in GPUS.items()}
    if match and (model := models.get(match[1], match[1])) in GPUS:
        return _gpu(asked, model, int(match[2] or 1))
    raise errors.unknown_name(asked.text, asked.body, curated_names(asked.dialect))


def _tpu(asked: _Asked, generation: Generation, size: str) -> Slice:
    topology = _topology(asked, generation, size)
    default = next(machine for machine in generation.machines if machine.makes(topology))
    machine = _machine(asked.text, asked.machine, generation, topology) if asked.machine else default
    chips = prod(topology)
    return Slice(
        name=_tpu_name(generation, topology) + (f"@{machine.name}" if machine is not default else ""),
        platform="tpu",
        generation=generation.name,
        topology=written(topology),
        machine_type=machine.name,
        chips=chips,
        hosts=max(1, chips // machine.chips),
        chips_per_host=machine.chips,
        jax_devices=chips * generation.devices_per_chip,
        gke_accelerator=machine.label,
        notes=_notes(generation, topology, machine),
    )


def _topology(asked: _Asked, generation: Generation, size: str) -> Topology:
    if not size and asked.dialect == "chips" and generation.bare_chips:
        size = str(generation.bare_chips)
    if _NUMBER.fullmatch(size):
        return _numbered(asked, generation, int(size))
    if not _TOPOLOGY.fullmatch(size):
        raise errors.no_size(asked.text, generation, _example_names(asked, generation))
    topology = tuple(int(side) for side in size.split("x"))
    if topology not in topologies_by_chips(generation).get(prod(topology), ()):
        raise errors.unknown_topology(asked.text, generation, topology)
    return topology


def _numbered(asked: _Asked, generation: Generation, number: int) -> Topology:
    """The topology that a name by number means. Only the curated table knows; nothing is guessed."""
    chips = number if asked.dialect == "chips" else number / generation.count
    named = dict(named_topologies(generation))
    if asked.dialect == "chips":
        named.update(generation.chips_names)
    if chips in named:
        return named[int(chips)]
    below = [size for size in sorted(named) if size < chips][-1:]
    above = [size for size in sorted(named) if size > chips][:1]
    nearest = {_numbered_name(generation, size, asked.dialect): named[size] for size in below + above}
    raise errors.unknown_number(asked.text, generation, chips, nearest)


def _example_names(asked: _Asked, generation: Generation) -> list[str]:
    return [_numbered_name(generation, chips, asked.dialect) for chips in list(named_topologies(generation))[:3]]


def _machine(text: str, wanted: str, generation: Generation, topology: Topology) -> Machine:
    usable = {machine.name: machine for machine in generation.machines if machine.makes(topology)}
    if wanted not in usable:
        raise errors.wrong_machine(text, wanted, [name for name in usable if name])
    return usable[wanted]


def _tpu_name(generation: Generation, topology: Topology) -> str:
    if named_topologies(generation)[prod(topology)] == topology:
        return _numbered_name(generation, prod(topology))
    return f"{generation.name}-{written(topology)}"


def _notes(generation: Generation, topology: Topology, machine: Machine) -> tuple[str, ...]:
    chips = prod(topology)
    notes = list(generation.notes)
    notes += [
        f"@{other.name} makes it {chips // other.chips} host{'s' if chips > other.chips else ''}"
        for other in generation.machines
        if other.makes(topology) and other.chips != machine.chips
    ]
    if generation.largest_job and chips > generation.largest_job:
        notes.append(f"above the largest single job that Google documents, {generation.largest_job} chips")
    square = squarest(generation, chips)
    if named_topologies(generation)[chips] == topology != square:
        notes.append(f"not the squarest of its size: that is {generation.name}-{written(square)}")
    return tuple(notes)


def _gpu(asked: _Asked, model: str, count: int) -> Slice:
    gpu = GPUS[model]
    if count not in gpu.machines:
        raise errors.wrong_gpu_count(asked.text, model, [_gpu_name(model, number) for number in gpu.machines])
    if asked.machine and asked.machine != gpu.machines[count]:
        raise errors.wrong_machine(asked.text, asked.machine, [gpu.machines[count]])
    return Slice(
        name=_gpu_name(model, count),
        platform="gpu",
        generation=model,
        topology=None,
        machine_type=gpu.machines[count],
        chips=count,
        hosts=1,
        chips_per_host=count,
        jax_devices=count,
        gke_accelerator=gpu.label,
    )


def _cpu(asked: _Asked, hosts: int, devices: int) -> Slice:
    if asked.machine:
        raise errors.wrong_machine(asked.text, asked.machine, [])
    return Slice(
        name="cpu" if hosts == devices == 1 else f"cpu-{hosts}x{devices}",
        platform="cpu",
        generation="cpu",
        topology=f"{hosts}x{devices}",
        machine_type=None,
        chips=hosts * devices,
        hosts=hosts,
        chips_per_host=devices,
        jax_devices=hosts * devices,
        gke_accelerator=None,
        notes=("local backend only",),
    )
