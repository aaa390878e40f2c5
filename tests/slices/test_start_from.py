"""A job that starts with another one's model has its numbers, bit for bit, and counts its own steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from prefect_tpu.infra.launcher.checkpoints import sealed
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).parents[1] / "programs" / "saver.py"
STEPS, MORE = 4, 3


def after(saver: ModuleType, *runs: int) -> str:
    """The digest of its numbers after runs of so many steps, one behind the other."""
    numbers = saver.first()
    for step in (step for steps in runs for step in range(steps)):
        numbers = numbers * np.uint32(3) + np.uint32(step)
    digest: str = saver.digest(numbers)
    return digest


@pytest.fixture(scope="module")
def machine(new_machine: Callable[[], Any]) -> Iterator[Any]:
    """With a job `first` that has trained."""
    with new_machine() as machine:
        assert run(machine, "first", STEPS)["start"] == 0
        yield machine


def run(machine: Any, name: str, steps: int, *words: str, on: str = "cpu-2x1") -> dict[str, Any]:
    """What a job returned."""
    asked = ("run", f"{PROGRAM}:main", "--name", name, "-a", on, "-p", f"steps={steps}", "--json", *words)
    process = machine.prefect_tpu(*asked)
    assert process.wait(120) == 0, process.err
    value: dict[str, Any] = json.loads(process.out.splitlines()[-1])["value"]
    return value


def test_it_goes_on_from_the_newest_checkpoint_on_another_slice(machine: Any, saver: ModuleType) -> None:
    found = run(machine, "second", MORE, "--start-from", str(machine.output / "first"), on="cpu")
    assert found == {"start": 0, "digest": after(saver, STEPS, MORE)}


def test_from_one_checkpoint_by_its_place_and_again_after_a_failure(machine: Any, saver: ModuleType) -> None:
    """Once it has saved, its own checkpoint counts."""
    point = sealed(LocalStorage(machine.output / "first"))[-1]  # an older one
    place = machine.output / "first" / "checkpoints" / str(point.attempt) / str(point.step)
    words = ("--start-from", str(place), "-p", f"fail_at={MORE - 1}")
    asked = ("run", f"{PROGRAM}:main", "--name", "third", "-a", "cpu-2x1", "-p", f"steps={MORE}", *words)
    assert machine.prefect_tpu(*asked).wait(120) == 1
    (machine.output / "third" / saver.MENDED).touch()
    found = run(machine, "third", MORE, *words)
    assert found["start"] > 0 and found["digest"] == after(saver, point.step + 1, MORE)


def test_what_has_no_checkpoint_is_told(machine: Any) -> None:
    folder = machine.output / "empty"
    folder.mkdir()
    (folder / "job.json").write_bytes((machine.output / "first" / "job.json").read_bytes())
    asked = ("run", f"{PROGRAM}:main", "-a", "cpu", "-p", "steps=1", "--start-from", str(folder))
    process = machine.prefect_tpu(*asked)
    assert process.wait(120) == 1
    assert "has no whole checkpoint: name another one" in process.err


def test_what_is_no_job_is_told_before_anything_starts(machine: Any) -> None:
    asked = ("run", f"{PROGRAM}:main", "-a", "cpu", "-p", "steps=1", "--start-from", str(machine.folder))
    process = machine.prefect_tpu(*asked)
    assert process.wait(60) == 2
    assert "is no job" in process.err
