"""What was recorded from the compiler, and the meshes for which it was."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from prefect_tpu.infra.compiler.crossing import Layout, Place
from prefect_tpu.infra.compiler.hlo import Program, read_program

RECORDED = Path(__file__).parent / "recorded"
PROGRAMS = tuple(sorted(path.stem for path in RECORDED.glob("*.hlo")))

# v6e-16 by `create_device_mesh`: rows of four chips, of which two are on one host and two on the next.
V6E_16 = Layout(
    names=("fsdp", "tp"),
    sizes=(4, 4),
    places=tuple(Place(slice=0, host=2 * (row // 2) + column // 2) for row in range(4) for column in range(4)),
)
# Two of them by `create_hybrid_device_mesh`; JAX's ids count from 100000 × the slice's number, and row by row in each.
TWO_V6E_16 = Layout(
    names=("fsdp", "tp"),
    sizes=(8, 4),
    places=tuple(
        Place(slice=number, host=4 * number + place.host, id=100_000 * (number + 1) + position)
        for number in range(2)
        for position, place in enumerate(V6E_16.places)
    ),
)


@cache
def text(name: str) -> str:
    return (RECORDED / f"{name}.hlo").read_text()


def program(name: str) -> Program:
    return read_program(text(name))


def counted(name: str) -> dict[str, Any]:
    """What the compiler's own analyses say of a program."""
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


@cache
def errors() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((RECORDED / "errors.json").read_text())
    return found
