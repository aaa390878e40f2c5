"""A slice has one holder, and stays taken while anything lives that inherited it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefect_tpu.infra.backends.local_slices import LocalSlices, SliceLock, slice_count, whole_number
from prefect_tpu.infra.errors import PlatformError, UsageError

WAITS = "import sys; sys.stdin.read()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "slices"


def taken(slices: LocalSlices, job: str) -> SliceLock:
    lock = slices.take(job)
    assert isinstance(lock, SliceLock), lock
    return lock


@pytest.fixture
def heir(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that inherited the slice of job a, whose taker has let go of it."""
    slices = LocalSlices(folder, 1)
    lock = taken(slices, "a")
    child = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE, pass_fds=(lock.descriptor,))
    slices.give_back(lock)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def test_the_second_holder_waits_and_learns_for_whom(folder: Path) -> None:
    slices, others = LocalSlices(folder, 1), LocalSlices(folder, 1)
    lock = taken(slices, "first")
    assert others.take("second") == slices.take("second") == "the slice of this machine is taken by job 'first'"
    slices.give_back(lock)
    lock = taken(others, "second")
    assert slices.take("third") == "the slice of this machine is taken by job 'second'"
    others.give_back(lock)


def test_as_many_as_configured_run_side_by_side(folder: Path) -> None:
    slices = LocalSlices(folder, 2)
    first, second = taken(slices, "a"), taken(slices, "b")
    assert (first.number, second.number) == (0, 1)
    assert slices.take("c") == "all 2 slices of this machine are taken by job 'a', job 'b'"
    slices.give_back(first)
    assert taken(slices, "c").number == 0
    assert slices.take("d") == "all 2 slices of this machine are taken by job 'c', job 'b'"


def test_a_child_that_inherited_the_slice_keeps_it(folder: Path, heir: subprocess.Popen[bytes]) -> None:
    slices = LocalSlices(folder, 1)
    assert slices.take("b") == "the slice of this machine is taken by job 'a'"
    heir.kill()
    heir.wait()
    slices.give_back(taken(slices, "b"))


def test_a_child_that_did_not_inherit_it_does_not_keep_it(folder: Path) -> None:
    slices = LocalSlices(folder, 1)
    lock = taken(slices, "a")
    child = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE)
    try:
        slices.give_back(lock)
        slices.give_back(taken(slices, "b"))
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("raw", [None, b"", b"{", b"[]", b"{}"])
def test_an_owner_that_is_not_written_down_is_another_job(folder: Path, raw: bytes | None) -> None:
    slices = LocalSlices(folder, 1)
    lock = taken(slices, "a")
    (folder / "0.json").unlink()
    if raw is not None:
        (folder / "0.json").write_bytes(raw)
    assert slices.take("b") == "the slice of this machine is taken by another job"
    slices.give_back(lock)


def test_a_folder_that_cannot_be_made_is_the_platforms_refusal(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PlatformError, match=r"Could not open the slice locks in .*file/slices"):
        LocalSlices(tmp_path / "file" / "slices", 1).take("a")


def test_settings_of_this_machine() -> None:
    assert slice_count({}) == 1
    assert slice_count({"PREFECT_TPU_LOCAL_SLICES": "3"}) == 3
    assert whole_number({}, "N", default=7) == 7


@pytest.mark.parametrize("raw", ["0", "-1", "1.5", "many", ""])
def test_a_number_that_is_none_is_refused(raw: str) -> None:
    with pytest.raises(UsageError, match=f"PREFECT_TPU_LOCAL_SLICES is '{raw}': give a whole number from 1"):
        slice_count({"PREFECT_TPU_LOCAL_SLICES": raw})
