"""The largest batch and the smallest slice, where both are known beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest
from compile_command import Compile

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(600)]

GROWING = Path(__file__).with_name("programs") / "growing.py"


def test_the_largest_batch(compile_: Compile) -> None:
    """31.25 GiB of each of 8 chips hold 31 rows of 1 GiB, and of 16 GiB less a quarter 15."""
    said = compile_(f"{GROWING}:lower", "-a", "v6e-8", "-a", "v5e-8", "--fit", "batch", "--json")
    assert said.status == 0, said.err
    assert [one["batch_per_chip"] for one in said.json] == [31, 15]
    assert all(one["verdict"]["problem"] is None for one in said.json)


def test_the_search_begins_with_the_batch_that_is_given(compile_: Compile) -> None:
    said = compile_(f"{GROWING}:lower", "-a", "v5e-8", "--fit", "batch", "--param", "batch=120")
    assert said.status == 0, said.err
    first, second, *_ = said.err.splitlines()
    assert first.endswith("v5e-8, batch=120") and second.endswith("v5e-8, batch=240")
    assert said.out.splitlines()[1].split()[8] == "15"


def test_what_fits_is_told_though_a_larger_batch_fails_by_something_else(compile_: Compile) -> None:
    said = compile_(f"{GROWING}:lower_few", "-a", "v6e-8", "--fit", "batch", "--param", "batch=64", "--json")
    assert said.status == 0, said.err
    (found,) = said.json
    assert (found["batch_per_chip"], found["is_largest"]) == (16, False)
    assert "no more rows" in found["ended_by"]["message"]


def test_the_smallest_slice(compile_: Compile) -> None:
    """100 GiB need more than 2 × 2 chips of v5e, and 2 × 4 have them."""
    said = compile_(f"{GROWING}:lower_whole", "-a", "v5e-*", "--param", "gib=100")
    assert said.status == 0, said.err
    *_, smaller, found = [line for line in said.out.splitlines() if line.startswith("v5e-")]
    assert "too large" in smaller and smaller.startswith("v5e-4")
    assert "fits" in found and found.startswith("v5e-8")


def test_a_batch_that_never_fits_says_why(compile_: Compile) -> None:
    """One row for each chip is too much where each row is as large as this."""
    said = compile_(f"{GROWING}:lower_rows", "-a", "v5e-1", "--fit", "batch", "--json")
    assert said.status == 1
    (found,) = said.json
    assert found["batch_per_chip"] is None
    assert found["verdict"]["problem"]["needs"] >= 32 * 2**30


def test_a_function_that_lowers_nothing_is_told_so(compile_: Compile) -> None:
    said = compile_(f"{GROWING}:returns_nothing", "-a", "v5e-4")
    assert said.status == 1
    assert "return jax.jit(step).lower(…)" in said.out
