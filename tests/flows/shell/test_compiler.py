"""The command `compile`: what is wrong is told before a program is run or a compiler is looked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = "def main(steps: int = 3): raise AssertionError('nobody runs this')\n"


@pytest.fixture
def compile_(prefect_tpu: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """In a folder with a program, where a compiler would have to be fetched and cannot be."""
    (tmp_path / "model.py").write_text(PROGRAM)
    (tmp_path / "no folder").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_TPU_COMPILER_PYTHON", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no folder"))
    return lambda *words: prefect_tpu("compile", *words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("model.py:main",), "accelerator"),
        (("model.py:main", "-a", "v6e-17"), "v6e-16"),
        (("model.py:main", "-a", "v4-32"), "megacore"),
        (("model.py:main", "-a", "tpu7-32"), "does not know it yet"),
        (("model.py:main", "-a", "cpu"), "no TPU"),
        (("model.py:main", "-a", "v4-*"), "no sizes that can be checked"),
        (("other.py:main", "-a", "v6e-16"), "is not there"),
        (("model.py:mein", "-a", "v6e-16"), "has no function 'mein'. It has: main."),
        (("model.py:main", "-a", "v6e-16", "--param", "speed=1"), "no parameter 'speed'"),
        (("model.py:main", "-a", "v6e-16", "--fit", "batch"), "no parameter 'batch'"),
        (("model.py:main", "-a", "v6e-16", "--fit", "steps", "--param", "steps=0"), "is no batch"),
        (("model.py:main", "-a", "v6e-16", "--mesh", "tp"), "cannot be read"),
        (("model.py:main", "-a", "v6e-16", "--within", "tp=chip"), "AXIS=host"),
        (("model.py:main", "-a", "v6e-16", "--data", "rows.csv"), "is not at rows.csv"),
        (("model.py:main", "-a", "v6e-16", "--slices", "0"), "equal to 1"),
    ],
)
def test_a_wrong_call(compile_: Callable[..., Any], words: tuple[str, ...], why: str) -> None:
    ended = compile_(*words)
    assert ended.status == 2
    assert why in ended.err


def test_a_wrong_call_as_json(compile_: Callable[..., Any]) -> None:
    ended = compile_("model.py:main", "-a", "v4-32", "--json")
    assert ended.status == 2
    assert json.loads(ended.out)["kind"] == "UsageError"


def test_a_compiler_that_cannot_be_had_is_the_platform_s_fault(compile_: Callable[..., Any]) -> None:
    ended = compile_("model.py:main", "-a", "v6e-16")
    assert ended.status == 3
    assert "XDG_CACHE_HOME" in ended.err
