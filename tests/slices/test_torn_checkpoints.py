"""A real Orbax checkpoint that was torn in any way is never restored: the run goes on from the one before it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import write_json
from prefect_tpu.infra.launcher.checkpoints import newest_whole, sealed
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import LocalStorage

pytestmark = [pytest.mark.slices, pytest.mark.timeout(200)]

PROGRAM = Path(__file__).parents[1] / "programs" / "saver.py"
NAME, STEPS, FAIL_AT = "saver", 6, 4
RUN = ("run", f"{PROGRAM}:main", "--name", NAME, "-a", "cpu-2x1", "-p", f"steps={STEPS}", "-p", f"fail_at={FAIL_AT}")
PLACES = 20  # where files are cut
Damages = Iterator[tuple[str, Callable[[], object]]]


@pytest.fixture(scope="module")
def failed(new_machine: Callable[[], Any]) -> Iterator[Path]:
    """The folder of a real job on two hosts that saved each step until it failed."""
    with new_machine() as machine:
        process = machine.prefect_tpu(*RUN)
        assert process.wait(120) == 1, process.err
        assert machine.left() == []
        yield machine.output / NAME


@pytest.fixture
def job(failed: Path, tmp_path: Path) -> LocalStorage:
    """A copy of that job, to be damaged."""
    folder = tmp_path / "jobs" / NAME
    shutil.copytree(failed, folder)
    return LocalStorage(folder)


def two_newest(job: LocalStorage) -> tuple[RestorePoint, RestorePoint]:
    """A busy machine may not finish the save that was under way at the failure; the ones before it are there."""
    newest, before, *_ = sealed(job)
    return newest, before


def step_folder(job: LocalStorage) -> Path:
    newest, _ = two_newest(job)
    return job.path(f"{layout.checkpoints(newest.attempt)}/{newest.step}")


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def cut(job: LocalStorage) -> Damages:
    """Each file at its end and in its middle first, then anywhere."""
    chance = random.Random(20_260_101)
    files = [file for file in files_of(step_folder(job)) if file.stat().st_size > 1]
    for number in range(PLACES):
        file = files[number % len(files)]
        size = file.stat().st_size
        length = chance.choice((0, size // 2, size - 1, chance.randrange(size)))
        yield f"{file.name} cut to {length} of {size}", lambda f=file, n=length: f.write_bytes(f.read_bytes()[:n])  # type: ignore[misc]


def missing(job: LocalStorage) -> Damages:
    """One by one; among them what Orbax itself takes for its commit."""
    files = files_of(step_folder(job))
    assert {"_CHECKPOINT_METADATA", "manifest.ocdbt"} <= {file.name for file in files}
    for file in files:
        yield f"no {file.name}", file.unlink
    yield "no folder", lambda: shutil.rmtree(step_folder(job))
    yield "no arrays", lambda: shutil.rmtree(step_folder(job) / "state")
    yield "not committed", lambda: step_folder(job).rename(f"{step_folder(job)}.orbax-checkpoint-tmp")


def changed(job: LocalStorage) -> Damages:
    """A bit of each file, which Orbax may restore without a word; and files that grew."""
    chance = random.Random(3)
    for file in files_of(step_folder(job)):
        raw = file.read_bytes()
        if raw:
            place, bit = chance.randrange(len(raw)), 1 << chance.randrange(8)
            flipped = raw[:place] + bytes([raw[place] ^ bit]) + raw[place + 1 :]
            yield f"a bit of {file.name}", lambda f=file, r=flipped: f.write_bytes(r)  # type: ignore[misc]
        yield f"{file.name} grew", lambda f=file, r=raw: f.write_bytes(r + b"\0")  # type: ignore[misc]


def seals(job: LocalStorage) -> Damages:
    newest, before = two_newest(job)
    name = layout.checkpoint_seal(newest.attempt, newest.step)
    raw = job.get(name) or b""
    yield "no seal", lambda: job.delete(name)
    for length in (0, 1, len(raw) // 2, len(raw) - 1):
        yield f"seal cut to {length}", lambda n=length: job.put(name, raw[:n])  # type: ignore[misc]
    older = job.get(layout.checkpoint_seal(before.attempt, before.step)) or b""
    yield "seal of another step", lambda: job.put(name, older)
    yield "seal of nothing", lambda: job.put(name, write_json({"files": {}}))
    yield "seal of a newer release", lambda: job.put(name, json.dumps({**json.loads(raw), "version": 2}).encode())


@pytest.mark.parametrize("damages", [cut, missing, changed, seals])
def test_the_one_before_a_torn_checkpoint_is_chosen(
    job: LocalStorage, damages: Callable[[LocalStorage], Damages]
) -> None:
    newest, before = two_newest(job)
    whole = job.root.with_name("whole")
    shutil.copytree(job.path(layout.CHECKPOINTS), whole)
    tried = 0
    for what, damage in damages(job):
        assert newest_whole(job, below=2) == newest, f"before: {what}"
        damage()
        assert newest_whole(job, below=2) == before, what
        shutil.rmtree(job.path(layout.CHECKPOINTS))
        shutil.copytree(whole, job.path(layout.CHECKPOINTS))
        tried += 1
    assert tried >= 8


def cut_an_array(job: LocalStorage) -> int:
    largest = max(files_of(step_folder(job)), key=lambda file: file.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1000])
    return two_newest(job)[1].step + 1


def flip_a_bit_of_an_array(job: LocalStorage) -> int:
    largest = max(files_of(step_folder(job)), key=lambda file: file.stat().st_size)
    raw = bytearray(largest.read_bytes())
    raw[len(raw) // 2] ^= 1
    largest.write_bytes(raw)
    return two_newest(job)[1].step + 1


def leave_none_whole(job: LocalStorage) -> int:
    for file in job.path(layout.CHECKPOINTS).glob("*/*/_CHECKPOINT_METADATA"):
        file.unlink()
    return 0


@pytest.mark.parametrize("tear", [cut_an_array, flip_a_bit_of_an_array, leave_none_whole])
def test_the_run_goes_on_from_what_is_whole_to_the_right_value(
    machine: Any, job: LocalStorage, saver: ModuleType, tear: Callable[[LocalStorage], int]
) -> None:
    torn, start = step_folder(job), tear(job)
    job.put(saver.MENDED, b"")
    process = machine.prefect_tpu(*RUN, "--json")
    assert process.result()["value"] == {"start": start, "digest": saver.expected(STEPS)}
    assert process.wait() == 0
    plan = json.loads(job.get(layout.plan(2)) or b"")
    assert plan["restore"] == (None if start == 0 else {"attempt": 1, "step": start - 1})
    assert f"The checkpoint {torn} is passed over. " in process.err and "Traceback" not in process.err
    assert machine.left() == []
