"""Faults that cost nothing where they are found before there is a slice: each with a clear message, and status 1."""

from __future__ import annotations

from pathlib import Path

import pytest
from compile_command import Compile

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(600)]

WRONG_STEPS = Path(__file__).with_name("programs") / "wrong_steps.py"


@pytest.mark.parametrize(
    ("function", "words", "kind", "told"),
    [
        ("too_large", (), "too_large", ("GiB",)),
        ("does_not_divide", (), "not_divisible", ("100", "16", "wrong_steps.py:")),
        ("not_on_tpu", (), "not_on_tpu", ("eig", "wrong_steps.py:")),
        ("for_eight", (), "wrong_devices", ("8 devices", "16")),
        ("for_four_of_them", (), "wrong_devices", ("4 of 16",)),
        ("lowered_here", (), "wrong_devices", ("devices of this machine", "sharding on the mesh")),
        ("lowered_for_one", (), "wrong_devices", ("1 of 16",)),
        ("lowers_an_array", (), "program", ("ShapeDtypeStruct", "wrong_steps.py:")),
        ("without_step", (), "program", ("tpu.step",)),
    ],
)
def test_a_fault_is_named(
    compile_: Compile, function: str, words: tuple[str, ...], kind: str, told: tuple[str, ...]
) -> None:
    said = compile_(f"{WRONG_STEPS}:{function}", "-a", "v6e-16", "--json", *words)
    assert said.status == 1, said.err
    problem = said.json[0]["verdict"]["problem"]
    assert problem["kind"] == kind
    assert problem["advice"]
    for word in told:
        assert word in f"{problem['message']} {problem['where']} {problem['advice']}"


def test_an_exchange_between_hosts_is_refused_where_it_is_said_to_stay_on_one(compile_: Compile) -> None:
    said = compile_(f"{WRONG_STEPS}:across_hosts", "-a", "v6e-16", "--within", "tp=host")
    assert said.status == 1
    for word in ("axis 'tp' of size 16", "crosses hosts", "MiB", "A host has 4 devices"):
        assert word in said.err
    kept = compile_(f"{WRONG_STEPS}:across_hosts", "-a", "v6e-16", "--within", "tp=host", "--param", "tp=2")
    assert kept.status == 0, kept.err
