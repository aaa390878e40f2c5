"""The example learns its digits, and an interrupted run ends with the same model, bit for bit."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slices

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "digits.py"
CALL = "import sys; sys.path.insert(0, sys.argv[1]); import digits; print(digits.main(steps=150, step_seconds={pause}))"


def start(folder: Path, pause: float = 0.0) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", CALL.format(pause=pause), str(EXAMPLE.parent)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2"},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )


def value(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return ast.literal_eval(out)  # type: ignore[no-any-return]


def test_an_interrupted_run_ends_with_the_same_model(tmp_path: Path) -> None:
    whole = value(start(tmp_path / "whole"))
    assert whole["accuracy"] >= 0.95 and whole["steps"] == 150

    interrupted = start(tmp_path / "interrupted", pause=0.02)
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "interrupted/checkpoints/1").exists():  # made once the block listens
            assert interrupted.poll() is None and time.monotonic() < end
            time.sleep(0.02)
        interrupted.send_signal(signal.SIGTERM)
        interrupted.communicate(timeout=60)
        assert interrupted.returncode == 1  # Preempted, unless somebody catches it
    finally:
        interrupted.kill()
    (sealed,) = (tmp_path / "interrupted").glob("checkpoints/1/*.sealed.json")
    assert int(sealed.name.split(".")[0]) < 149
    assert value(start(tmp_path / "interrupted")) == whole
