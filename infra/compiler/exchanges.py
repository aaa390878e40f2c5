"""What do devices exchange in a step? Read from the compiler's text: operations, bytes, groups, how often.

Between slices there is no operation of the compiler's own: it sends to the hosts and receives from them what the
data centre's network carries, and the numbers in its text count the devices of one slice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from prefect_tpu.infra.compiler.groups import Groups, read_groups, read_pairs
from prefect_tpu.infra.compiler.hlo import Computation, Instruction, Program
from prefect_tpu.infra.compiler.rounds import Times

_KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
_OPCODES = {name: kind for kind in _KINDS for name in (kind, f"{kind}-start")}
_BETWEEN_SLICES = {"one-to-one": "collective-permute"}  # in our words; others are called as within a slice
_REDUCED_AND_SPLIT = "all-reduce-scatter"  # what the compiler calls a part that reduces and keeps a share of it

_GROUPS = r"replica_groups=(mesh\[[^\]]*\] \{[^}]*\}|\[[^\s]*|\{\{.*?\}\}|\{\})"
_PAIRS = r"source_target_pairs=(\{\{.*?\}\}|\{\})"
_TARGET = r'_xla_megascale_target=("[^"]*"|\{\{.*?\}\})'
_TYPE = r'_xla_megascale_transfer_type="([^"]*)"'
_MEETING = r'_xla_host_transfer_rendezvous="([^"]*)"'
_ALIKE = re.compile(r"\{([\d,]+)\}x\{(\d+):(\d+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One operation.

    bytes: of the arrays that one device has before or after it, whichever are larger, at one time.
    groups: of devices, by their numbers in the program; None where they are written as nobody knows.
    between: the numbers of slices, from 0, between which it goes, from device to like device; empty within one.
    ids: the groups are of device ids rather than numbers in the program.
    """

    kind: str
    bytes: int
    times: Times
    groups: Groups | None = None
    between: tuple[int, ...] = ()
    ids: bool = False


def exchanges(program: Program, executions: Mapping[str, Times]) -> tuple[Exchange, ...]:
    """All that are done in a step, in no order; none of devices with themselves."""
    found: list[Exchange] = []
    for name, times in executions.items():
        computation = program.computations[name]
        found += _within(program, computation, times)
        found += _between(computation, times)
    return tuple(one for one in found if one.times.count and not _is_alone(one))


def _is_alone(one: Exchange) -> bool:
    return one.groups is not None and not one.between and all(len(set(group)) < 2 for group in one.groups)


def _within(program: Program, computation: Computation, times: Times) -> Iterator[Exchange]:
    for one in computation.instructions.values():
        kind = _OPCODES.get(one.opcode)
        if kind is None:
            continue
        groups = _groups_of(one, program.partitions)
        given = sum(computation.instructions[name].bytes for name in one.operands if name in computation.instructions)
        each = len(groups[0]) if groups and kind == "all-gather" else 1
        if kind == "all-reduce" and _REDUCED_AND_SPLIT in computation.name:
            kind = "reduce-scatter"
        yield Exchange(kind=kind, bytes=given * each, times=times, groups=groups)


def _groups_of(one: Instruction, devices: int) -> Groups | None:
    if one.opcode.startswith("collective-permute"):
        return read_pairs(one.attribute(_PAIRS))
    return read_groups(one.attribute(_GROUPS).rstrip(","), devices)


def _between(computation: Computation, times: Times) -> Iterator[Exchange]:
    """Of what is sent and what is received under one name, the larger."""
    met: dict[str, Exchange] = {}
    for one in computation.instructions.values():
        if one.opcode not in ("send", "recv") or not (kind := one.attribute(_TYPE)):
            continue
        moved = one.arrays[0].bytes
        meeting = one.attribute(_MEETING)
        known = met.setdefault(meeting, _of_slices(one, kind.lower().replace("_", "-"), times))
        met[meeting] = replace(known, bytes=max(known.bytes, moved))
    yield from met.values()


def _of_slices(one: Instruction, kind: str, times: Times) -> Exchange:
    kind, target = _BETWEEN_SLICES.get(kind, kind), one.attribute(_TARGET).strip('"')
    if found := _ALIKE.fullmatch(target):
        slices = tuple(int(number) - 1 for number in found[1].split(","))
        return Exchange(kind=kind, bytes=0, times=times, between=slices)
    groups = read_pairs(target.replace("->", ",")) if target.startswith("{{") else None
    return Exchange(kind=kind, bytes=0, times=times, groups=groups, ids=True)
