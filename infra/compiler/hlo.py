"""What does the compiler's text of a program (HLO) say? Its computations and their instructions, as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

_HEAD = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[^\s(]+) \(.*\{$")
_INSTRUCTION = re.compile(r"\s+(?P<root>ROOT )?%?(?P<name>\S+) = (?P<rest>.*)$")
_OPCODE = re.compile(r"[a-z][\w-]*")
_OPERAND = re.compile(r"%([^\s,()]+)")
_ARRAY = re.compile(r"\b(?P<type>[a-z]\w*)\[(?P<dims>[^\]]*)\]")
_BITS = re.compile(r"[a-z]+?(\d+)")
_CALLED = re.compile(r"\b(calls|to_apply|body|condition|true_computation|false_computation)=%?([^\s,}]+)")
_CALLED_LIST = re.compile(r"\b(branch_computations|called_computations)=\{([^}]*)\}")
_PARTITIONS = re.compile(r"\bnum_partitions=(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """The type and the dimensions of one array."""

    type: str
    dims: tuple[int, ...]

    @property
    def bytes(self) -> int:
        bits = 8 if self.type == "pred" else int(found[1]) if (found := _BITS.match(self.type)) else 0
        return (prod(self.dims) * bits + 7) // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One line.

    shape: of what it gives, as it is written; a tuple has several arrays.
    operands: names of instructions of the same computation.
    attributes: what follows, as it is written.
    """

    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    written: str
    attributes: str

    @property
    def arrays(self) -> tuple[Array, ...]:
        return tuple(_array(found) for found in _ARRAY.finditer(self.shape))

    @property
    def bytes(self) -> int:
        """Of all that it gives."""
        return sum(array.bytes for array in self.arrays)

    def attribute(self, pattern: str) -> str:
        """What the first group of a pattern finds in the attributes; empty where it finds nothing."""
        found = re.search(pattern, self.attributes)
        return found[1] if found else ""

    @property
    def called(self) -> tuple[tuple[str, str], ...]:
        """How, and which computations it has done."""
        single = [(found[1], found[2]) for found in _CALLED.finditer(self.attributes)]
        several = [
            (found[1], name) for found in _CALLED_LIST.finditer(self.attributes) for name in _OPERAND.findall(found[2])
        ]
        return (*single, *several)


@dataclass(frozen=True, kw_only=True)
class Computation:
    """Instructions by their names, in the order in which they are written."""

    name: str
    instructions: Mapping[str, Instruction]
    root: str

    @cached_property
    def parameters(self) -> Mapping[str, int]:
        """Name → its place."""
        return {
            one.name: int(one.written)
            for one in self.instructions.values()
            if one.opcode == "parameter" and one.written
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Computations by their names.

    partitions: how many devices the numbers in it count; of several slices those of one.
    """

    computations: Mapping[str, Computation]
    entry: str
    partitions: int


def read_program(text: str) -> Program:
    """Raises `ValueError` where the text has no program."""
    computations: dict[str, Computation] = {}
    entry = ""
    for head, lines in _bodies(text):
        found = _HEAD.match(head)
        assert found is not None
        computation = _computation(found["name"], lines)
        computations[computation.name] = computation
        entry = computation.name if found["entry"] else entry
    if not entry:
        raise ValueError("the compiler's text has no entry")
    partitions = _PARTITIONS.search(text[: text.find("\n")])
    return Program(computations=computations, entry=entry, partitions=int(partitions[1]) if partitions else 1)


def _bodies(text: str) -> Iterator[tuple[str, list[str]]]:
    """The head and the lines of each computation."""
    head, lines = "", list[str]()
    for line in text.splitlines():
        if head and line.startswith("}"):
            yield head, lines
            head, lines = "", []
        elif head:
            lines.append(line)
        elif not line.startswith((" ", "HloModule")) and _HEAD.match(line):
            head = line


def _computation(name: str, lines: list[str]) -> Computation:
    instructions: dict[str, Instruction] = {}
    root = ""
    for line in lines:
        found = _INSTRUCTION.match(line)
        if found is None:
            continue
        instructions[found["name"]] = _instruction(found["name"], found["rest"])
        if found["root"]:
            root = found["name"]
    return Computation(name=name, instructions=instructions, root=root)


def _instruction(name: str, rest: str) -> Instruction:
    """Of `SHAPE opcode(operands), attributes`; a tuple's shape stands in parentheses."""
    end = _closing(rest, 0) if rest.startswith("(") else rest.find(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    opcode = _OPCODE.match(rest)
    if opcode is None:
        raise ValueError(f"instruction {name} of the compiler's text cannot be read: {rest[:80]!r}")
    end = _closing(rest, opcode.end())
    written = rest[opcode.end() + 1 : end - 1]
    return Instruction(
        name=name,
        shape=shape,
        opcode=opcode[0],
        operands=tuple(_OPERAND.findall(written)),
        written=written,
        attributes=rest[end:],
    )


def _closing(text: str, opening: int) -> int:
    """The place after the parenthesis that closes the one at `opening`."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def _array(found: re.Match[str]) -> Array:
    dims = tuple(int(size.lstrip("<=")) for size in found["dims"].split(",") if size.strip())
    return Array(type=found["type"], dims=dims)
