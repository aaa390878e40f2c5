"""How long does it take to have a step compiled for a slice that is not there, beside a script that does no more?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from ratios import Contender, Experiment
from sides import TOOL

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("PREFECT_TPU_COMPILER_PYTHON") or str(ROOT / ".venv-compiler" / "bin" / "python")
BARE = ROOT / "tests" / "compiler" / "ask_of_step.py"
PROGRAM = ROOT / "docs" / "examples" / "language_model" / "train.py"


def one_step(folder: Path) -> Experiment:
    return Experiment(
        against="a script that asks libtpu",
        other=lambda: _taking(folder, [sys.executable, "-P", str(BARE)], _libtpu(), json.dumps(_question())),
        contenders=(
            Contender(
                what="`prefect-tpu compile`",
                how="The language model's step for v6e-16, from the start of the command to its end.",
                seconds=lambda: _taking(
                    folder,
                    [TOOL, "compile", f"{PROGRAM}:main", "-a", "v6e-16", "--json"],
                    {"PREFECT_TPU_COMPILER_PYTHON": PYTHON},
                ),
                goal=1.1,
            ),
        ),
    )


def _question() -> dict[str, object]:
    about = {"topology": "v6e:4x4", "host": [2, 2, 1], "slices": 1}
    return {"file": str(PROGRAM), "params": {}, "devices": 16, "questions": [about]}


def _libtpu() -> dict[str, str]:
    library = next(Path(PYTHON).absolute().parents[1].glob("lib/python3*/site-packages/libtpu/libtpu.so"))
    return {"TPU_LIBRARY_PATH": str(library), "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


def _taking(folder: Path, command: list[str], more: dict[str, str], words: str = "") -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, input=words, env={**os.environ, **more}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return time.perf_counter() - began
