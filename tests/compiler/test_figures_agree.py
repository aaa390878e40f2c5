"""What `compile` says of every JAX example is what libtpu says of it, asked by a script that knows nothing of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compile_command import SECONDS, Compile

from prefect_tpu.infra.accelerators import resolve

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
BARE = Path(__file__).with_name("ask_of_step.py")
SETTINGS = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
HOSTS = {1: [1, 1, 1], 4: [2, 2, 1], 8: [2, 4, 1]}

ALONE = ("v5e-16", "v6e-16", "v5p-32", "tpu7x-16")
PROGRAMS = {
    "digits": ("digits.py", {}),
    "language_model": ("language_model/train.py", {"batch": 32}),
    "two_slices": ("two_slices/train.py", {}),
}


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_figures_agree(compile_: Compile, compiler_python: str, name: str, slices: int) -> None:
    file, params = PROGRAMS[name]
    if name == "two_slices":
        params = {"replicas": slices}
    accelerators = ALONE if slices == 1 else ("v6e-16",)
    said = compile_(
        f"{EXAMPLES / file}:main",
        *(word for accelerator in accelerators for word in ("-a", accelerator)),
        *(word for key, value in params.items() for word in ("--param", f"{key}={value}")),
        *("--slices", str(slices), "--json"),
    )
    assert said.status == 0, said.err
    theirs = _bare(compiler_python, file, params, accelerators, slices)
    assert [_figures(verdict) for verdict in _verdicts(said.json)] == theirs


def test_every_jax_example_is_here() -> None:
    """Those that call a step of their own; what trains by a framework's loop has none that could be seen."""
    with_step = {path for path in EXAMPLES.rglob("*.py") if "@tpu.step" in path.read_text()}
    assert with_step == {EXAMPLES / file for file, _ in PROGRAMS.values()}


def _verdicts(said: Any) -> list[Any]:
    return [one.get("verdict", one) for one in said]


def _figures(verdict: Any) -> dict[str, float]:
    step = verdict["step"]
    parts = ("arguments", "outputs", "aliased", "temporaries", "code")
    return {part: step["memory"][part] for part in parts} | {
        one: step["cost"][one] for one in ("flops", "bytes_accessed")
    }


def _bare(python: str, file: str, params: object, accelerators: tuple[str, ...], slices: int) -> Any:
    found = [resolve(accelerator) for accelerator in accelerators]
    library = next(Path(python).absolute().parents[1].glob("lib/python3*/site-packages/libtpu/libtpu.so"))
    asked = {
        "file": str(EXAMPLES / file),
        "params": params,
        "devices": found[0].jax_devices * slices,
        "questions": [
            {"topology": f"{one.generation}:{one.topology}", "host": HOSTS[one.chips_per_host], "slices": slices}
            for one in found
        ],
    }
    done = subprocess.run(
        [sys.executable, "-P", str(BARE)],
        input=json.dumps(asked),
        env={**os.environ, **SETTINGS, "TPU_LIBRARY_PATH": str(library)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])
