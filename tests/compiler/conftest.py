"""The command as a person runs it, in an environment where Google's compiler is at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, self.err
        return json.loads(self.out)


Compile = Callable[..., Said]


@pytest.fixture(scope="session")
def compiler_python() -> str:
    """The interpreter that has jax[tpu]."""
    python = os.environ.get("PREFECT_TPU_COMPILER_PYTHON", "")
    if python and Path(python).exists():
        return python
    reason = f"PREFECT_TPU_COMPILER_PYTHON is {python!r}: `make setup-compiler` makes such an environment."
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)  # a required tier that cannot run is an error
    pytest.skip(reason)


@pytest.fixture
def compile_(compiler_python: str, tmp_path: Path) -> Compile:
    """`prefect-tpu compile` with these words, in a folder of its own."""

    def run(*words: str) -> Said:
        command = [str(Path(sys.executable).with_name("prefect-tpu")), "compile", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
        assert "Traceback" not in done.stderr, done.stderr
        return Said(status=done.returncode, out=done.stdout, err=done.stderr)

    return run
