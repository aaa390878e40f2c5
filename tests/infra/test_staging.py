"""Data is laid down by its content: whole, once, and never by halves."""

from __future__ import annotations

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.staging import Staged, stage


class Killed(BaseException):
    """This process ends here."""


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "a.csv").write_bytes(b"1,2\n")
    (source / "deep" / "er" / "b.bin").write_bytes(bytes(range(256)) * 5000)
    return source


def laid(output: Path, staged: Staged) -> dict[str, bytes]:
    base = output / layout.data(staged.sha256)
    return {str(path.relative_to(base)): path.read_bytes() for path in base.rglob("*") if path.is_file()}


def manifest(output: Path, staged: Staged) -> dict[str, object]:
    """What it says to people and programs; how the files look is between two calls of `stage`."""
    facts = dict(json.loads((output / f"{layout.data(staged.sha256)}.json").read_bytes()))
    assert facts.pop("laid")
    return facts


def test_a_folder_lies_there_as_it_was(folder: Path, output: Path) -> None:
    copied: list[int] = []
    staged = stage(str(folder), str(output), copied.append)
    assert staged.copied and staged.bytes == sum(copied) == 4 + 256 * 5000
    assert len(copied) == 3, "in blocks"
    assert laid(output, staged) == {"a.csv": b"1,2\n", "deep/er/b.bin": bytes(range(256)) * 5000}
    assert manifest(output, staged) == {"version": 1, "kind": "folder", "name": "source", "bytes": staged.bytes}


def test_a_file_lies_there_under_its_name(folder: Path, output: Path) -> None:
    staged = stage(str(folder / "a.csv"), str(output))
    assert laid(output, staged) == {"a.csv": b"1,2\n"}
    assert manifest(output, staged) == {"version": 1, "kind": "file", "name": "a.csv", "bytes": 4}


def test_a_folder_of_one_file_is_not_that_file(folder: Path, output: Path) -> None:
    lone = folder.with_name("lone")
    lone.mkdir()
    (lone / "a.csv").write_bytes(b"1,2\n")
    as_file, as_folder = stage(str(folder / "a.csv"), str(output)), stage(str(lone), str(output))
    assert manifest(output, as_file)["kind"] == "file"
    assert manifest(output, as_folder)["kind"] == "folder"
    assert as_file.sha256 != as_folder.sha256


def test_unchanged_data_is_not_copied_again_wherever_it_lies(folder: Path, output: Path) -> None:
    first = stage(str(folder), str(output))
    moved = folder.rename(folder.with_name("moved"))
    os.utime(moved / "a.csv", (1, 1))
    copied: list[int] = []
    again = stage(str(moved), str(output), copied.append)
    assert (again.sha256, again.bytes, again.copied, copied) == (first.sha256, first.bytes, False, [])


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "a.csv").write_bytes(b"1,3\n"),
        lambda folder: (folder / "a.csv").rename(folder / "b.csv"),
        lambda folder: (folder / "deep" / "new").write_bytes(b""),
        lambda folder: (folder / "a.csv").unlink(),
    ],
)
def test_changed_data_is_other_data(folder: Path, output: Path, change: object) -> None:
    first = stage(str(folder), str(output))
    assert callable(change)
    change(folder)
    second = stage(str(folder), str(output))
    assert second.copied and second.sha256 != first.sha256
    assert set(laid(output, first)) == {"a.csv", "deep/er/b.bin"}


@pytest.mark.parametrize("blocks", [0, 1, 2])
def test_a_copy_cut_short_is_no_data_and_the_next_one_is_whole(folder: Path, output: Path, blocks: int) -> None:
    seen: list[int] = []

    def until_killed(size: int) -> None:
        seen.append(size)
        if len(seen) > blocks:
            raise Killed

    with pytest.raises(Killed):
        stage(str(folder), str(output), until_killed)
    assert not list(output.rglob("*.json"))
    staged = stage(str(folder), str(output))
    assert staged.copied
    assert set(laid(output, staged)) == {"a.csv", "deep/er/b.bin"}
    assert {path.name for path in (output / layout.DATA_FOLDER).iterdir()} == {staged.sha256, f"{staged.sha256}.json"}


def rewrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda data, manifest: rewrite(data / "a.csv", b"1,3\n"),
        lambda data, manifest: rewrite(data / "a.csv", b"1,2,3\n"),
        lambda data, manifest: (data / "a.csv").unlink(),
        lambda data, manifest: (data / "a.csv").rename(data / "b.csv"),
        lambda data, manifest: (data / "stray.csv").write_bytes(b""),
        lambda data, manifest: data.rename(data.with_name("gone")),
        lambda data, manifest: manifest.write_bytes(b"{"),
        lambda data, manifest: manifest.write_bytes(b'{"version":1,"kind":"folder","name":"source"}'),
    ],
)
def test_data_that_somebody_touched_is_laid_down_again(folder: Path, output: Path, harm: object) -> None:
    staged = stage(str(folder), str(output))
    before, data = laid(output, staged), output / layout.data(staged.sha256)
    assert callable(harm)
    harm(data, data.with_name(f"{staged.sha256}.json"))
    assert stage(str(folder), str(output)).copied
    assert laid(output, staged) == before
    assert not stage(str(folder), str(output)).copied


def test_data_that_changes_while_it_is_copied_is_refused(folder: Path, output: Path) -> None:
    def meanwhile(size: int) -> None:
        (folder / "deep" / "er" / "b.bin").write_bytes(b"other")

    with pytest.raises(UsageError, match="changes while it is copied: stage it again"):
        stage(str(folder), str(output), meanwhile)
    assert list((output / layout.DATA_FOLDER).iterdir()) == []


def test_a_name_in_any_bytes_is_staged(folder: Path, output: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_bytes(b"1")
    assert stage(str(folder), str(output)).copied
    assert not stage(str(folder), str(output)).copied


def test_what_a_killed_process_left_without_its_manifest_is_replaced(folder: Path, output: Path) -> None:
    staged = stage(str(folder), str(output))
    (output / f"{layout.data(staged.sha256)}.json").unlink()
    rewrite(output / layout.data(staged.sha256) / "a.csv", b"half")
    (output / layout.data(staged.sha256) / "stray").write_bytes(b"")
    assert stage(str(folder), str(output)).copied
    assert laid(output, staged) == {"a.csv": b"1,2\n", "deep/er/b.bin": bytes(range(256)) * 5000}


def test_data_that_another_job_laid_down_meanwhile_stays_as_it_is(folder: Path, output: Path) -> None:
    inodes: list[int] = []

    def meanwhile(size: int) -> None:
        if not inodes:
            inodes.append(0)
            other = stage(str(folder), str(output))
            inodes[0] = (output / layout.data(other.sha256)).stat().st_ino

    staged = stage(str(folder), str(output), meanwhile)
    assert (output / layout.data(staged.sha256)).stat().st_ino == inodes[0]
    assert {path.name for path in (output / layout.DATA_FOLDER).iterdir()} == {staged.sha256, f"{staged.sha256}.json"}


def test_many_who_stage_the_same_data_at_once_all_find_it(folder: Path, output: Path) -> None:
    for _ in range(10):
        meet = threading.Barrier(8)
        first = threading.local()

        def wait_for_all(_: int, meet: threading.Barrier = meet, first: threading.local = first) -> None:
            if not getattr(first, "met", False):  # nobody puts the data in place before all found it absent
                first.met = True
                meet.wait(30)

        with ThreadPoolExecutor(8) as pool:
            staged = [pool.submit(stage, str(folder), str(output), wait_for_all) for _ in range(8)]
        assert len({one.result().sha256 for one in staged}) == 1
        assert not stage(str(folder), str(output)).copied
        shutil.rmtree(output)


def test_a_link_to_a_file_is_the_file(folder: Path, output: Path) -> None:
    first = stage(str(folder), str(output))
    (folder / "a.csv").rename(folder.with_name("elsewhere"))
    (folder / "a.csv").symlink_to(folder.with_name("elsewhere"))
    assert stage(str(folder), str(output)).sha256 == first.sha256


@pytest.mark.parametrize(
    "make",
    [
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path.parent.parent, target_is_directory=True),
    ],
    ids=["fifo", "broken link", "link to a folder"],
)
def test_what_is_neither_file_nor_folder_is_refused_before_anything_is_copied(
    folder: Path, output: Path, make: object
) -> None:
    assert callable(make)
    make(folder / "deep" / "odd")
    with pytest.raises(UsageError, match=r"deep/odd is neither a file nor a folder"):
        stage(str(folder), str(output))
    assert not output.exists()


def test_what_is_not_there_or_empty_is_refused(tmp_path: Path, output: Path) -> None:
    with pytest.raises(UsageError, match="named by an empty path"):
        stage("", str(output))
    with pytest.raises(UsageError, match="/dev/zero is neither a file nor a folder: copy what it gives"):
        stage("/dev/zero", str(output))
    with pytest.raises(UsageError, match="absent is not there: check the path"):
        stage(str(tmp_path / "absent"), str(output))
    (tmp_path / "empty" / "deep").mkdir(parents=True)
    with pytest.raises(UsageError, match="empty holds no files"):
        stage(str(tmp_path / "empty"), str(output))


def test_an_output_that_cannot_be_written_is_the_platforms_refusal(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PlatformError, match=r"Could not stage .*source into .*file"):
        stage(str(folder), str(tmp_path / "file"))


def test_a_folder_that_holds_the_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("1")
    (tmp_path / "way").symlink_to(tmp_path, target_is_directory=True)
    for source in (tmp_path, tmp_path / "way"):
        with pytest.raises(UsageError, match="holds the output .*: give another output"):
            stage(str(source), str(tmp_path / "jobs"))
    assert not (tmp_path / "jobs").exists()


def test_a_link_that_leads_nowhere_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="loop is a link that leads nowhere"):
        stage(str(tmp_path / "loop"), str(tmp_path / "jobs"))
