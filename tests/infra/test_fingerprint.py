"""A function's fingerprint is the same in every process, and another function's is another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.fingerprint import fingerprint

SCRIPT = """
import cloudpickle
from prefect_tpu.infra.fingerprint import fingerprint

NAMES = {"alpha", "beta", "gamma", (1, "delta"), (2, "epsilon")}

class Net:
    width = 4
    def size(self): return self.width in {"one", "two", "three"}

def helper(x): return helper(x - 1) if x else Net().size()

def main(steps=3): return helper(steps), NAMES, "alpha"

print(fingerprint(cloudpickle.dumps(main)), hash(cloudpickle.dumps(main)))
"""
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


def test_it_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    found = [
        subprocess.run(
            [sys.executable, "-P", "script.py"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for seed in ("0", "1", "2")
    ]
    fingerprints, pickles = zip(*found, strict=True)
    assert len(set(fingerprints)) == 1
    assert len(set(pickles)) == 3, "otherwise a hash of the pickle would do"


@pytest.mark.parametrize("values", [({(1, 2), (3, 4)}, {(1, 3), (2, 4)}), ({"a"}, {"b"}), ({1}, frozenset({1}))])
def test_other_sets_are_others(values: tuple[object, object]) -> None:
    assert fingerprint(cloudpickle.dumps(values[0])) != fingerprint(cloudpickle.dumps(values[1]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda x: x - 1, lambda x: x - 2),
        (lambda x: (1, 2), lambda x: (2, 1)),
        (lambda x, y=1: x, lambda x, y=2: x),
        (lambda x: x in {1, 2}, lambda x: x in {1, 3}),
    ],
)
def test_other_functions_are_others(one: object, other: object) -> None:
    assert fingerprint(cloudpickle.dumps(one)) != fingerprint(cloudpickle.dumps(other))


@given(values, values)
@settings(max_examples=150)
def test_equal_fingerprints_mean_equal_values(one: object, other: object) -> None:
    same = fingerprint(cloudpickle.dumps(one)) == fingerprint(cloudpickle.dumps(other))
    assert same == (cloudpickle.dumps(one) == cloudpickle.dumps(other))
