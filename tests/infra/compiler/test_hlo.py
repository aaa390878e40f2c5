"""The compiler's text is read: every program that was recorded, and a text that is none."""

from __future__ import annotations

import pytest
from compiler_words import PROGRAMS, counted, program, text

from prefect_tpu.infra.compiler.hlo import Array, read_program


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_line_is_read(name: str) -> None:
    found = program(name)
    lines = [line for line in text(name).splitlines() if line.startswith("  ") and " = " in line]
    assert sum(len(part.instructions) for part in found.computations.values()) == len(lines) > 10
    assert all(part.root in part.instructions for part in found.computations.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_are_instructions_of_the_same_part(name: str) -> None:
    for part in program(name).computations.values():
        for one in part.instructions.values():
            assert set(one.operands) <= part.instructions.keys(), one


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parameters_of_the_entry_are_the_arguments(name: str) -> None:
    """What they take lies in whole tiles, so the compiler may count more."""
    found = program(name)
    entry = found.computations[found.entry]
    given = sum(entry.instructions[name].bytes for name in entry.parameters)
    assert given <= counted(name)["argument_size_in_bytes"] <= 1.2 * given


def test_devices_are_those_of_one_slice() -> None:
    assert {name: program(name).partitions for name in ("scanned", "two_slices", "multiplications")} == {
        "scanned": 16,
        "two_slices": 16,
        "multiplications": 4,
    }


@pytest.mark.parametrize(
    ("array", "size"),
    [
        (Array(type="bf16", dims=(8, 128)), 2048),
        (Array(type="f32", dims=()), 4),
        (Array(type="pred", dims=(5,)), 5),
        (Array(type="s4", dims=(3,)), 2),
        (Array(type="f8e4m3fn", dims=(10,)), 10),
        (Array(type="token", dims=()), 0),
    ],
)
def test_bytes_of_an_array(array: Array, size: int) -> None:
    assert array.bytes == size


@pytest.mark.parametrize("words", ["", "HloModule empty\n", "nothing of the kind"])
def test_a_text_without_a_program_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match="no entry"):
        read_program(words)
