"""Only a sealed checkpoint whose files are all there counts."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from gcs import Gcs

from prefect_tpu.infra import seals
from prefect_tpu.infra.contract import read_json, write_json
from prefect_tpu.infra.layout import checkpoint_seal
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import LocalStorage, Storage, open_storage


def written(root: Path, attempt: int, step: int) -> RestorePoint:
    folder = root / str(attempt) / str(step) / "state"
    folder.mkdir(parents=True)
    (folder / "array").write_bytes(b"12345")
    return RestorePoint(attempt=attempt, step=step)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def test_a_seal_lists_the_files_and_lies_where_the_layout_says(root: Path) -> None:
    point = written(root, 2, 40)
    assert seals.seal(LocalStorage(root), point, devices=16, hosts=4)
    assert not seals.seal(LocalStorage(root), point, devices=16, hosts=4)
    content = read_json((root.parent / checkpoint_seal(2, 40)).read_bytes(), "seal")
    assert content == {
        "version": 1, "attempt": 2, "step": 40, "devices": 16, "hosts": 4, "files": {"state/array": 5},
        "crc32": {"state/array": zlib.crc32(b"12345")},
    }  # fmt: skip


def test_unsealed_torn_and_shortened_checkpoints_do_not_count(root: Path) -> None:
    assert not seals.is_whole(LocalStorage(root), written(root, 1, 10))
    torn, short, whole = (written(root, 1, step) for step in (20, 30, 40))
    for point in (torn, short, whole):
        seals.seal(LocalStorage(root), point)
    (root / "1/20/state/array").unlink()
    (root / "1/30/state/array").write_bytes(b"123")
    assert [seals.is_whole(LocalStorage(root), point) for point in (torn, short, whole)] == [False, False, True]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b'{"version":1}',
        b'{"version":1,"files":{}}',
        b'{"version":1,"files":7}',
        b'{"version":1,"files":{"state/array":5},"crc32":{"state/array":"cbf53a1c"}}',
    ],
)
def test_a_seal_that_is_damaged_or_lists_nothing_seals_nothing(root: Path, raw: bytes) -> None:
    older, newer = written(root, 1, 10), written(root, 1, 20)
    seals.seal(LocalStorage(root), older)
    (root / "1/20.sealed.json").write_bytes(raw)
    assert not seals.is_whole(LocalStorage(root), newer)
    assert seals.newest_whole(LocalStorage(root)) == older


def test_the_newest_is_the_highest_whole_step(root: Path) -> None:
    assert seals.newest_whole(LocalStorage(root)) is None
    for attempt, step in ((1, 100), (2, 100), (2, 90), (3, 120)):
        seals.seal(LocalStorage(root), written(root, attempt, step))
    (root / "3/120/state/array").unlink()
    written(root, 4, 200)
    assert seals.newest_whole(LocalStorage(root)) == RestorePoint(attempt=2, step=100)


def test_a_changed_byte_is_found_where_the_checkpoint_is_read(root: Path) -> None:
    older, newer = written(root, 1, 10), written(root, 1, 20)
    for point in (older, newer):
        seals.seal(LocalStorage(root), point)
    (root / "1/20/state/array").write_bytes(b"12344")
    assert seals.is_whole(LocalStorage(root), newer)
    assert seals.flaw(LocalStorage(root), newer) == "state/array is missing or was changed after it was sealed."
    assert seals.newest_whole(LocalStorage(root)) == older


def test_a_seal_of_a_release_without_sums_counts_by_its_sizes(root: Path) -> None:
    point = written(root, 1, 10)
    (root / "1/10.sealed.json").write_bytes(write_json({"files": {"state/array": 5}}))
    assert seals.flaw(LocalStorage(root), point) is None
    (root / "1/10/state/array").write_bytes(b"1234")
    assert seals.flaw(LocalStorage(root), point) is not None


@pytest.fixture
def in_bucket(bucket: str) -> Storage:
    return open_storage(f"{bucket}/job/checkpoints")


def put(root: Storage, attempt: int, step: int) -> RestorePoint:
    root.put(f"{attempt}/{step}/state/array", b"12345")
    root.put(f"{attempt}/{step}/state/other", b"")
    return RestorePoint(attempt=attempt, step=step)


def test_in_a_bucket_a_look_is_enough_to_know(in_bucket: Storage, gcs: Gcs) -> None:
    older, newer, unsealed = put(in_bucket, 1, 10), put(in_bucket, 2, 20), put(in_bucket, 2, 30)
    for point in (older, newer):
        assert seals.seal(in_bucket, point, devices=4)
    assert not seals.seal(in_bucket, newer)
    in_bucket.put("2/21.sealed.json.bak", b"")
    in_bucket.put("x/5.sealed.json", b"")
    with gcs.watched() as requests:
        assert seals.newest_whole(in_bucket) == newer
        assert not seals.is_whole(in_bucket, unsealed)
    assert [r.target for r in requests if r.query.get("alt") == "media" and "sealed" not in r.target] == []
    in_bucket.put("2/20/state/array", b"12344")
    assert not seals.is_whole(in_bucket, newer)
    assert seals.flaw(in_bucket, newer) == "state/array is missing or was changed after it was sealed."
    assert seals.newest_whole(in_bucket) == older


@pytest.mark.parametrize(
    "tear",
    [
        lambda root: root.delete("1/10/state/other"),
        lambda root: root.delete_folder("1/10"),
        lambda root: root.put("1/10/state/array", b"123456"),
        lambda root: root.put("1/10.sealed.json", b"{"),
        lambda root: root.delete("1/10.sealed.json"),
    ],
)
def test_in_a_bucket_what_is_torn_does_not_count(in_bucket: Storage, tear: Callable[[Storage], None]) -> None:
    point = put(in_bucket, 1, 10)
    seals.seal(in_bucket, point)
    tear(in_bucket)
    assert not seals.is_whole(in_bucket, point)
    assert seals.newest_whole(in_bucket) is None


def test_a_job_that_was_copied_between_disk_and_bucket_counts_by_its_sizes(in_bucket: Storage, root: Path) -> None:
    disk = LocalStorage(root)
    for home, other in ((in_bucket, disk), (disk, in_bucket)):
        for storage in (home, other):
            storage.delete_folder("1")
        point = put(home, 1, 10)
        seals.seal(home, point)
        for name in home.list("1"):
            other.put(name, home.get(name) or b"")
        assert seals.flaw(other, point) is None
        other.put("1/10/state/array", b"1234")
        assert seals.flaw(other, point) is not None
