"""What every storage does alike: the disk, a bucket as the launcher sees it, and a bucket as a host sees it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from gcs import Gcs

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.storage import Storage, open_on_host, open_storage

OPENERS: dict[str, Callable[[str], Storage]] = {"disk": open_storage, "launcher": open_storage, "host": open_on_host}
ODD_NAMES = ["a b", "é", "%41", "a+b", "#?&=", "~", "x.", ".hid", "\u2028", "ü" * 60, "'\"", "*[x]", "d/e f/ö", "\\"]
RACER = """
import json, sys
from prefect_tpu.infra import storage
opened = getattr(storage, sys.argv[1])(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps([opened.put_if_absent(f"deep/{i}", sys.argv[3].encode() * 5000) for i in range(20)]))
"""


@pytest.fixture(params=OPENERS)
def open_it(request: pytest.FixtureRequest) -> Callable[[str], Storage]:
    return OPENERS[request.param]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    is_disk = request.node.callspec.params["open_it"] == "disk"
    return str(tmp_path / "out" / "job") if is_disk else f"{request.getfixturevalue('bucket')}/out/job"


@pytest.fixture
def storage(open_it: Callable[[str], Storage], url: str) -> Storage:
    return open_it(url)


def test_what_is_put_is_got_listed_and_deleted(storage: Storage) -> None:
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
    assert storage.get("a/b") is None
    assert storage.list("a") == ["a/c/d"]


def test_a_folder_of_it_is_a_storage(storage: Storage, url: str) -> None:
    storage.inside("a").put("b/c", b"1")
    assert storage.get("a/b/c") == b"1"
    assert storage.inside("a/b").get("c") == b"1"
    assert storage.inside("a").list("b") == ["b/c"]
    assert (storage.url, storage.inside("a").url) == (url, f"{url}/a")
    assert storage.inside("a").where("b/c") == storage.where("a/b/c") == f"{url}/a/b/c"


def test_children_are_what_lies_directly_there(storage: Storage) -> None:
    assert storage.children("") == storage.children("a") == []
    for name in ("a/1", "a/2/x", "a/2/y/z", "ab/1", "c"):
        storage.put(name, b"")
    assert storage.children("") == ["a", "ab", "c"]
    assert storage.children("a") == ["1", "2"]
    assert storage.children("a/2") == ["x", "y"]
    assert storage.children("nowhere") == []


@pytest.mark.parametrize("count", [1, 9, 10, 11, 20, 21, 30])
def test_a_list_is_whole_however_many_pages_it_has(storage: Storage, gcs: Gcs, count: int) -> None:
    names = [f"many/{number:04}" for number in range(count)]
    for name in names:
        storage.put(name, b"")
    with gcs.pages_of(10):
        assert storage.list("many") == names
        assert storage.children("many") == [name.removeprefix("many/") for name in names]
        storage.delete_folder("many")
    assert storage.list("many") == []


@pytest.mark.parametrize("page", [1, 3, 7, 8, 100])
def test_many_folders_are_children_once_each(storage: Storage, gcs: Gcs, page: int) -> None:
    for name in [f"many/{number}/{part}" for number in range(7) for part in "ab"] + ["many/55", "many/zz"]:
        storage.put(name, b"")
    with gcs.pages_of(page):
        assert storage.children("many") == [*"012345", "55", "6", "zz"]
        assert len(storage.list("many")) == 16


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_may_be_odd(storage: Storage, name: str) -> None:
    storage.put(f"odd/{name}", name.encode())
    assert not storage.put_if_absent(f"odd/{name}", b"second")
    assert storage.get(f"odd/{name}") == name.encode()
    assert storage.list("odd") == [f"odd/{name}"]
    assert storage.children("odd") == [name.split("/")[0]]
    assert storage.facts("odd")[f"odd/{name}"].bytes == len(name.encode())
    storage.delete(f"odd/{name}")
    assert storage.list("odd") == []


@pytest.mark.parametrize("name", ["", ".", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "./..", "a\0b"])
def test_names_that_leave_the_folder_are_refused(storage: Storage, name: str) -> None:
    verbs: list[Callable[[str], object]] = [
        storage.get,
        lambda name: storage.put(name, b""),
        lambda name: storage.put_if_absent(name, b""),
        storage.delete,
        storage.delete_folder,
        storage.list,
        storage.facts,
        storage.changed,
        storage.checksum,
        storage.inside,
        storage.where,
    ]
    for verb in verbs:
        with pytest.raises(UsageError, match="is not a name inside"):
            verb(name)


@pytest.mark.parametrize("data", [b"", b"\0", b"\r\n--x--\r\n", bytes(range(256)) * 5000])
def test_bytes_come_back_as_they_were(storage: Storage, tmp_path: Path, data: bytes) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_bytes(data)
    storage.put("put", data)
    assert storage.put_if_absent("created", data)
    storage.put_file("file", source)
    for name in ("put", "created", "file"):
        assert storage.get(name) == data
        assert storage.get_file(name, target)
        assert target.read_bytes() == data
    assert len({storage.checksum(name) for name in ("put", "created", "file")}) == 1


def test_a_long_file_travels_whole(storage: Storage, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"0123456789abcdef" * (2**20 + 5))  # 16 MiB and a bit
    with source.open("rb") as file:
        md5 = hashlib.file_digest(file, "md5").hexdigest()
    storage.put_file("long", source, md5)
    assert storage.get_file("long", target)
    assert target.read_bytes() == source.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".tmp-")] == []


@pytest.mark.parametrize("size", [10, 9 * 2**20])
def test_a_file_that_is_not_what_it_was_is_not_put(storage: Storage, tmp_path: Path, size: int) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * size)
    with pytest.raises(PlatformError, match="source changed while it was written to .*file: do it again"):
        storage.put_file("file", source, hashlib.md5(b"what it was").hexdigest())
    assert storage.get("file") is None


def test_what_is_absent_is_no_file(storage: Storage, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"kept")
    assert not storage.get_file("absent", target)
    assert target.read_bytes() == b"kept"
    assert storage.changed("absent") is None
    with pytest.raises(PlatformError, match="Could not read .*absent"):
        storage.checksum("absent")
    with pytest.raises(PlatformError, match="Could not read .*no-such-source"):
        storage.put_file("x", tmp_path / "no-such-source")


def test_facts_are_known_in_one_look(storage: Storage) -> None:
    assert storage.facts("a") == {}
    storage.put("a/1", b"12345")
    storage.put("a/b/2", b"")
    found = storage.facts("a")
    assert {name: facts.bytes for name, facts in found.items()} == {"a/1": 5, "a/b/2": 0}
    for name, facts in found.items():
        assert facts.changed == pytest.approx(storage.changed(name), abs=1e-3)
        assert facts.checksum in (None, storage.checksum(name))


def test_what_is_written_later_changed_later(storage: Storage) -> None:
    seen = []
    for number in range(5):
        storage.put("a", b"%d" % number)
        changed = storage.changed("a")
        assert changed is not None
        seen.append(changed)
    assert seen == sorted(seen)
    storage.put("b", b"")
    assert (storage.changed("b") or 0) >= seen[-1]


def test_equal_bytes_have_equal_checksums(storage: Storage) -> None:
    for name, data in {"a": b"1", "b": b"1", "c": b"2", "d": b""}.items():
        storage.put(name, data)
    first, second, other, empty = (storage.checksum(name) for name in "abcd")
    assert first == second and len({first, other, empty}) == 3
    kind, _, value = first.partition(":")
    assert kind in ("crc32", "md5") and bytes.fromhex(value)


def test_create_only_writes_once(storage: Storage) -> None:
    assert storage.put_if_absent("plan", b"first")
    assert not storage.put_if_absent("plan", b"first")
    assert not storage.put_if_absent("plan", b"second")
    assert storage.get("plan") == b"first"
    storage.put("plan", b"replaced")
    assert not storage.put_if_absent("plan", b"third")
    storage.delete("plan")
    assert storage.put_if_absent("plan", b"fourth")


def test_deleting_a_folder_leaves_its_neighbours(storage: Storage) -> None:
    for name in ("a/1", "a/b/2", "ab", "a.json"):
        storage.put(name, b"")
    storage.delete_folder("a")
    storage.delete_folder("a")
    assert storage.children("") == ["a.json", "ab"]


def test_threads_that_race_have_one_winner_whose_bytes_are_there(storage: Storage) -> None:
    start = Barrier(8)

    def race(racer: int) -> list[bool]:
        won = []
        for i in range(10):
            start.wait(30)
            won.append(storage.put_if_absent(f"deep/{i}", b"%d" % racer * 5000))
        return won

    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(race, range(8)))
    for i in range(10):
        (winner,) = (racer for racer in range(8) if wins[racer][i])
        assert storage.get(f"deep/{i}") == b"%d" % winner * 5000


def test_threads_that_write_the_same_bytes_have_one_winner(storage: Storage) -> None:
    start = Barrier(6)

    def race(_: int) -> bool:
        start.wait(30)
        return storage.put_if_absent("same", b"alike")

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(race, range(6))) == 1


def test_processes_that_race_have_one_winner(storage: Storage, open_it: Callable[[str], Storage]) -> None:
    words = [sys.executable, "-c", RACER, open_it.__name__, storage.url]
    racers = [
        subprocess.Popen([*words, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "ab"
    ]
    try:
        for racer in racers:
            assert racer.stdout and racer.stdout.readline() == "ready\n"
        wins = [json.loads(out) for out in _released(racers)]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert all(first != second for first, second in zip(*wins, strict=True))
    for i in range(20):
        assert storage.get(f"deep/{i}") == (b"a" if wins[0][i] else b"b") * 5000


def _released(racers: list[subprocess.Popen[str]]) -> list[str]:
    for racer in racers:
        assert racer.stdin
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [racer.communicate(timeout=60)[0] for racer in racers]


def test_both_sides_see_one_bucket(bucket: str) -> None:
    launcher, host = open_storage(f"{bucket}/job"), open_on_host(f"{bucket}/job")
    assert host.put_if_absent("a", b"host") and not launcher.put_if_absent("a", b"launcher")
    assert launcher.get("a") == b"host"
    assert launcher.checksum("a") == host.checksum("a")
    assert launcher.changed("a") == host.changed("a")
