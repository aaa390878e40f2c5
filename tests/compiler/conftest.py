"""The command as a person runs it, in an environment where Google's compiler is at hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package; this module is for this folder

from compile_command import SECONDS, Compile, Said  # noqa: E402


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
