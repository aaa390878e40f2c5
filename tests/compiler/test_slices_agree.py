"""Every TPU name means to Google's TPU compiler what it means to us: devices, processes and slices."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefect_tpu.infra.accelerators import Slice, curated_names, resolve

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(900)]

ASK = Path(__file__).with_name("ask_compiler.py")
SETTINGS = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
HOSTS = {1: [1, 1, 1], 4: [2, 2, 1], 8: [2, 4, 1]}

# Where the compiler says otherwise, and why we are right all the same. An exception that no longer holds fails too.
DEVICES_OF_A_CHIP = {"v4": 2}  # It counts both TensorCores; on a real v4 they are one JAX device (megacore).
UNKNOWN = {"tpu7": "Invalid TPU external name"}  # libtpu 0.0.42 does not know this generation yet.

OTHER_MACHINES = ("v5e-8@ct5lp-hightpu-4t", "v6e-8@ct6e-standard-4t", "tpu7x-128@tpu7x-ultranet-4t")
SHAPES = ("v4-8x4x4", "v4-16x16x16", "v5p-4x4x16", "v5p-8x8x12", "tpu7x-4x4x64", "tpu7x-4x8x256")
NAMES = (*(name for name in curated_names() if resolve(name).platform == "tpu"), *OTHER_MACHINES, *SHAPES)

# The compiler keeps some 4 KB of every device it was ever asked about: a process answers for this many, then a new one.
DEVICES_PER_PROCESS = 250_000
TWO_SLICES_UP_TO_CHIPS = 1024  # Larger ones are asked about alone; a second slice changes no shape.

Question = tuple[str, int]  # name, number of slices
Answers = dict[Question, dict[str, object]]

QUESTIONS: list[Question] = [(name, 1) for name in NAMES]
QUESTIONS += [(name, 2) for name in NAMES if resolve(name).chips <= TWO_SLICES_UP_TO_CHIPS]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """What the compiler says of every name, alone and, up to a size, as two slices."""
    python = _interpreter()
    return {question: answer for batch in _batches() for question, answer in _ask(python, batch).items()}


def _batches() -> Iterator[list[Question]]:
    batch: list[Question] = []
    devices = 0
    for name, slices in QUESTIONS:
        devices += resolve(name).jax_devices * slices
        batch.append((name, slices))
        if devices > DEVICES_PER_PROCESS:
            yield batch
            batch, devices = [], 0
    yield batch


def _ask(python: str, batch: list[Question]) -> Answers:
    done = subprocess.run(
        [python, str(ASK)],
        input=json.dumps([_question(resolve(name), slices) for name, slices in batch]),
        env={**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(zip(batch, json.loads(done.stdout.splitlines()[-1]), strict=True))


def _interpreter() -> str:
    python = os.environ.get("PREFECT_TPU_COMPILER_PYTHON", "")
    if python and Path(python).exists():
        return python
    reason = (
        f"PREFECT_TPU_COMPILER_PYTHON is {python!r}: it must name the interpreter of an environment with jax[tpu]."
        " `make setup-compiler` makes one."
    )
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(reason)  # a required tier that cannot run is an error
    pytest.skip(reason)


def _question(found: Slice, slices: int) -> dict[str, object]:
    host = HOSTS[found.chips_per_host]
    return {"topology": f"{found.generation}:{found.topology}", "host": host, "slices": slices}


def _expected(found: Slice, slices: int) -> dict[str, object]:
    devices = DEVICES_OF_A_CHIP.get(found.generation, found.jax_devices // found.chips) * found.chips
    return {"devices": devices * slices, "processes": found.hosts * slices, "slices": slices}


def _wrong(answers: Answers) -> Iterator[str]:
    for (name, slices), answer in answers.items():
        found = resolve(name)
        refusal = UNKNOWN.get(found.generation)
        if refusal and refusal in str(answer.get("error")):
            continue
        if refusal or answer != _expected(found, slices):
            yield f"{name} x {slices}: the compiler says {answer}, we say {_expected(found, slices)}"


def test_devices_processes_and_slices_agree(answers: Answers) -> None:
    assert len(answers) == len(QUESTIONS) > len(NAMES)
    assert not list(_wrong(answers))


@pytest.mark.parametrize("generation", DEVICES_OF_A_CHIP)
def test_the_exceptions_are_exceptions(answers: Answers, generation: str) -> None:
    name = f"{generation}-32"
    assert answers[name, 1]["devices"] != resolve(name).jax_devices


def test_the_compiler_can_disagree() -> None:
    """The comparison itself sees a wrong answer, a refusal, and an exception that no longer holds."""
    right = {"devices": 16, "processes": 4, "slices": 1}
    assert not list(_wrong({("v5p-32", 1): right}))
    assert len(list(_wrong({("v5p-32", 1): {**right, "processes": 2}}))) == 1
    assert len(list(_wrong({("v5p-32", 1): {"error": "Invalid topology"}}))) == 1
    assert len(list(_wrong({("tpu7-32", 1): {"devices": 32, "processes": 4, "slices": 1}}))) == 1
