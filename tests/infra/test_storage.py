"""Writes are atomic, create-only writes have one winner, and no name leaves the folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.storage import LocalStorage, open_storage


def files(storage: LocalStorage) -> list[str]:
    """Whatever lies there, hidden or not."""
    return sorted(path.name for path in storage.root.rglob("*") if path.is_file())


def test_get_put_list_delete(storage: LocalStorage) -> None:
    assert storage.get("a/b") is None
    storage.put("a/b", b"1")
    storage.put("a/b", b"2")
    storage.put("a/c/d", b"3")
    storage.put("ab", b"4")
    assert storage.get("a/b") == b"2"
    assert storage.get("a/b/below-a-file") is None
    assert storage.list("a") == ["a/b", "a/c/d"]
    assert storage.list("nowhere") == []
    storage.delete("a/b")
    storage.delete("a/b")
    assert storage.list("a") == ["a/c/d"]
    assert storage.inside("a").get("c/d") == b"3"
    assert storage.inside("a").url == f"{storage.url}/a"


def test_create_only_writes_once(storage: LocalStorage) -> None:
    assert storage.put_if_absent("plan", b"first")
    assert not storage.put_if_absent("plan", b"second")
    assert storage.get("plan") == b"first"
    assert files(storage) == ["plan"]


def test_a_write_that_fails_leaves_the_old_bytes_and_nothing_else(storage: LocalStorage) -> None:
    storage.put("a", b"old")
    with pytest.raises(TypeError):
        storage.put("a", "no bytes")  # type: ignore[arg-type]
    assert storage.get("a") == b"old"
    assert files(storage) == ["a"]


def test_what_a_killed_writer_left_is_no_name(storage: LocalStorage) -> None:
    storage.put("a", b"1")
    (storage.root / ".tmp-killed").write_bytes(b"half")
    assert [name for name in os.listdir(storage.root) if name not in (".tmp-killed", "a")] == []
    assert storage.inside("x").list("y") == []
    assert LocalStorage(storage.root.parent).list(storage.root.name) == [f"{storage.root.name}/a"]


def test_a_reader_never_sees_a_part(storage: LocalStorage) -> None:
    values = [bytes([letter]) * 200_000 for letter in b"abcd"]
    storage.put("a", values[0])

    def write(value: bytes) -> set[bytes | None]:
        for _ in range(5):
            storage.put("a", value)
        return set()

    def read(_: bytes) -> set[bytes | None]:
        return {storage.get("a") for _ in range(30)}

    with ThreadPoolExecutor(8) as pool:
        seen = set.union(*pool.map(lambda job: job[0](job[1]), [(f, v) for v in values for f in (write, read)]))
    assert seen and seen <= set(values)


def test_threads_that_race_have_one_winner_whose_bytes_are_there(storage: LocalStorage) -> None:
    start = Barrier(8)

    def race(racer: int) -> list[bool]:
        won = []
        for i in range(10):
            start.wait()
            won.append(storage.put_if_absent(f"deep/{i}", b"%d" % racer * 5000))
        return won

    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(race, range(8)))
    for i in range(10):
        (winner,) = (racer for racer in range(8) if wins[racer][i])
        assert storage.get(f"deep/{i}") == b"%d" % winner * 5000
    assert len(files(storage)) == 10


@pytest.mark.parametrize("name", ["", ".", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "./..", "a\0b"])
@pytest.mark.parametrize(
    "verb",
    [
        lambda s, n: s.get(n),
        lambda s, n: s.put(n, b""),
        lambda s, n: s.put_if_absent(n, b""),
        lambda s, n: s.delete(n),
        lambda s, n: s.list(n),
        lambda s, n: s.inside(n),
    ],
)
def test_names_that_leave_the_folder_are_refused(
    storage: LocalStorage, name: str, verb: Callable[[LocalStorage, str], object]
) -> None:
    with pytest.raises(UsageError, match="is not a name inside"):
        verb(storage, name)


@given(st.lists(st.sampled_from(["..", ".", "", "a", "b c", "é", "~"]), max_size=6).map("/".join) | st.text())
@example("//x")
@settings(max_examples=100)
def test_every_name_lies_inside_or_is_refused(name: str) -> None:
    storage = LocalStorage("/root/of/it")
    try:
        path = storage.path(name)
    except UsageError:
        return
    assert path != storage.root
    assert Path(os.path.normpath(path)).is_relative_to(storage.root)


def test_what_the_disk_refuses_is_a_platform_error_that_names_the_file(storage: LocalStorage) -> None:
    storage.put("file", b"")
    for write in (storage.put, storage.put_if_absent):
        with pytest.raises(PlatformError, match=r"Could not write .*file/below.*A file lies where a folder must be"):
            write("file/below", b"")
    storage.put("folder/a", b"")
    with pytest.raises(PlatformError, match="Could not read .*folder"):
        storage.get("folder")
    with pytest.raises(PlatformError, match="Could not delete .*folder"):
        storage.delete("folder")
    storage.delete("file/below")
    assert files(storage) == ["a", "file"]


def test_a_relative_output_in_a_folder_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="Output 'out' is relative, and the folder this process is in was deleted"):
        open_storage("out")
    assert open_storage(str(tmp_path)).url == str(tmp_path)


def test_an_output_is_a_folder_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_storage("out").url == str(tmp_path / "out")
    assert open_storage(f"file://{tmp_path}/x").url == f"{tmp_path}/x"
    assert open_storage("~/out").url == os.path.expanduser("~/out")
    with pytest.raises(UsageError, match="'s3://bucket/x' is not supported: give a folder of this machine, or gs://"):
        open_storage("s3://bucket/x")
    for name in ("a\0b", os.fsdecode(b"\xff")):
        with pytest.raises(UsageError, match="is not the name of a folder"):
            open_storage(name)
