"""A verdict comes through JSON as it was, and what is none is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from prefect_tpu.infra.compiler.fields import UnreadableAnswer
from prefect_tpu.infra.compiler.report import (
    AxisPlace,
    Collective,
    Cost,
    Crosses,
    Memory,
    Problem,
    ProblemKind,
    Step,
    Verdict,
)

STEP = Step(
    memory=Memory(
        arguments=400, outputs=300, aliased=200, temporaries=1000, code=10, total=1510, available=16 * 1024**3
    ),
    cost=Cost(flops=1e11, bytes_accessed=2e9, seconds=None),
    flops=1e12,
    estimated_seconds=None,
    bound_seconds=0.005,
    collectives=(Collective(kind="all-reduce", axes=("data",), count=3, bytes=1024, crosses=Crosses.HOSTS),),
)
FITS = Verdict(
    accelerator="v6e-16",
    slices=1,
    chips=16,
    devices=16,
    hosts=4,
    mesh=(("data", 4), ("tp", 4)),
    axes=(
        AxisPlace(name="data", size=4, crosses=Crosses.HOSTS),
        AxisPlace(name="tp", size=4, crosses=Crosses.NONE),
    ),
    step=STEP,
    problem=None,
    compile_seconds=4.5,
    versions={"jax": "0.10.2", "libtpu": "0.0.42"},
)
TOO_LARGE = Problem(kind=ProblemKind.TOO_LARGE, message="m", where="", advice="a", needs=40, available=16)


def _sent(verdict: Verdict) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(json.dumps(verdict.to_json()))
    return sent


def _changed(path: str, value: Any) -> dict[str, Any]:
    whole = _sent(FITS)
    *parents, last = path.split(".")
    place: Any = whole
    for name in parents:
        place = place[int(name) if name.isdecimal() else name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return whole


def test_a_verdict_comes_back_as_it_was() -> None:
    assert Verdict.from_json(_sent(FITS)) == FITS
    assert FITS.fits


def test_so_does_one_that_has_a_problem() -> None:
    refused = replace(FITS, step=None, problem=TOO_LARGE)
    assert Verdict.from_json(_sent(refused)) == refused
    assert not refused.fits


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("accelerator", ...),
        ("accelerator", 3),
        ("chips", -1),
        ("chips", True),
        ("chips", "16"),
        ("compile_seconds", float("nan")),
        ("compile_seconds", float("inf")),
        ("mesh", {"data": 16}),
        ("mesh", [["data"]]),
        ("mesh", [["data", 1.5]]),
        ("versions", ["0.10.2"]),
        ("versions", {"jax": None}),
        ("step", []),
        ("step.memory.total", ...),
        ("step.memory.total", 10.5),
        ("step.flops", 10**400),
        ("step.cost", None),
        ("step.cost.seconds", -1),
        ("step.collectives.0.crosses", "oceans"),
        ("step.collectives.0.is_exact", 1),
        ("step.estimated_seconds", "soon"),
        ("axes.0.crosses", None),
        ("problem", {"kind": "too_large", "message": "", "where": "", "advice": "", "needs": 1, "available": 1}),
        ("step", None),
    ],
)
def test_what_is_no_verdict_is_refused(path: str, value: Any) -> None:
    with pytest.raises(UnreadableAnswer, match="A verdict of the compiler's process cannot be read"):
        Verdict.from_json(_changed(path, value))


@pytest.mark.parametrize("data", [None, [], "a line", 3])
def test_what_is_no_table_is_refused(data: object) -> None:
    with pytest.raises(UnreadableAnswer):
        Verdict.from_json(data)
