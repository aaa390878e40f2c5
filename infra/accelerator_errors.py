"""What to tell somebody whose accelerator string means nothing: what is wrong, and the nearest names that exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from math import prod

from prefect_tpu.infra.accelerator_table import (
    Generation,
    Topology,
    named_topologies,
    topologies,
    topologies_by_chips,
    written,
)
from prefect_tpu.infra.errors import UsageError

_EXAMPLES = ("v6e-16", "v5p-2x2x4", "h100x8", "l4", "cpu")
_LISTING = "`prefect-tpu accelerators` lists all."


def unknown_dialect(dialect: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"Dialect {dialect!r} is not known: use one of {_listed(known)}.")


def unknown_capacity(name: str, capacity: str) -> UsageError:
    return UsageError(
        f"Accelerator {name!r} asks for capacity {capacity!r}: after the name and machine type, give at most one of"
        " ':spot', ':on-demand', ':reserved', ':reserved=NAME', ':flex-start' or ':queue'."
    )


def no_capacity_for_cpu(name: str) -> UsageError:
    return UsageError(f"Accelerator {name!r} asks for a kind of capacity, but 'cpu' is this machine: leave it out.")


def wrong_prefix(name: str, prefix: str, found: str) -> UsageError:
    return UsageError(f"Accelerator {name!r} starts with '{prefix}', but {found!r} is none: leave the prefix out.")


def no_machine_type(name: str) -> UsageError:
    return UsageError(f"Accelerator {name!r} has no machine type after '@': leave the '@' out or name one.")


def two_machine_types(name: str, machine_type: str) -> UsageError:
    return UsageError(f"Accelerator {name!r} names another machine type than {machine_type!r}: give one of the two.")


def wrong_machine(name: str, machine: str, usable: Sequence[str]) -> UsageError:
    advice = f"use {_listed(usable)}" if usable else "it has no machine type, leave it out"
    return UsageError(f"Accelerator {name!r} cannot be made of machine type {machine!r}: {advice}.")


def wrong_gpu_count(name: str, model: str, names: Iterable[str]) -> UsageError:
    return UsageError(f"Accelerator {name!r} is not one machine: {model} comes as {_listed(names)}.")


def part_of_a_gpu(name: str) -> UsageError:
    return UsageError(
        f"Accelerator {name!r} is a MIG partition: programs train on whole GPUs, since NCCL joins no partitions of one."
        " Give the GPU's name, such as 'a100' or 'h100x8'; several small jobs share a machine's GPUs by"
        " PREFECT_TPU_LOCAL_SLICES."
    )


def no_size(name: str, generation: Generation, examples: Iterable[str]) -> UsageError:
    shape = f"{generation.name}-{written(topologies(generation)[1])}"
    return UsageError(
        f"Accelerator {name!r} needs a number or a topology after {generation.name!r}:"
        f" such as {_listed(examples)} or {shape!r}. {_LISTING}"
    )


def unknown_number(name: str, generation: Generation, chips: float, nearest: Mapping[str, Topology]) -> UsageError:
    """A number outside the curated table: a topology would say it, and here are the nearest."""
    counted = f"TensorCores, {generation.count} a chip" if generation.count > 1 else "chips"
    options = " or ".join(f"{option!r} ({written(topology)})" for option, topology in nearest.items())
    return UsageError(
        f"Accelerator {name!r} is not a named size, so it needs a topology, and no {generation.name} topology has"
        f" {chips:g} chips (Google's {generation.name} names count {counted}): use {options}."
    )


def unknown_topology(name: str, generation: Generation, topology: Topology) -> UsageError:
    """A topology that does not exist: the same one put right, those of its size, or the next ones by size."""
    rising = tuple(sorted(topology))
    if rising in topologies(generation):
        return _instead(name, "has its sides in another order than Google's, which rise", generation, [rising])
    chips = prod(topology)
    if same := topologies_by_chips(generation).get(chips):
        return _instead(name, f"is no topology of {generation.name}, others have {chips} chips too", generation, same)
    named = sorted(named_topologies(generation).items())
    below = [option for size, option in named if size < chips][-2:]
    above = [option for size, option in named if size > chips][:2]
    return _instead(name, f"is no topology of {generation.name}, nor has any {chips} chips", generation, below + above)


def _instead(name: str, problem: str, generation: Generation, options: Sequence[Topology]) -> UsageError:
    names = [f"{generation.name}-{written(option)}" for option in options]
    more = f" (or {len(names) - 8} more)" if len(names) > 8 else ""
    return UsageError(f"Accelerator {name!r} {problem}: use {_listed(names[:8], ' or ')}{more}.")


def unknown_name(name: str, body: str, known: Sequence[str]) -> UsageError:
    near = get_close_matches(body, known, n=3, cutoff=0.6)
    advice = f"did you mean {_listed(near)}?" if near else f"give one such as {_listed(_EXAMPLES)}."
    return UsageError(f"Accelerator {name!r} is not known: {advice} {_LISTING}")


def _listed(names: Iterable[str], separator: str = ", ") -> str:
    return separator.join(repr(name) for name in names)
