"""Data is laid down in a bucket by its content and comes to a host's disk as it was, or not at all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gcs import Gcs

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.host.data import NotStaged, download_data
from prefect_tpu.infra.staging import measure, stage
from prefect_tpu.infra.storage import Storage, open_on_host, open_storage

BIG = bytes(range(256)) * 5000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "a.csv").write_bytes(b"1,2\n")
    (source / "empty").write_bytes(b"")
    (source / ".tmp-of-the-user").write_bytes(b"x")
    (source / "deep" / "er" / "b é.bin").write_bytes(BIG)
    return source


@pytest.fixture
def output(bucket: str) -> str:
    return f"{bucket}/jobs"


def downloaded(output: str, sha256: str, folder: Path) -> dict[str, bytes]:
    download_data(open_on_host(output), sha256, folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def uploads(requests: list[object]) -> list[str]:
    return [r.metadata["name"] for r in requests if "/upload/" in r.target and r.method == "POST"]  # type: ignore[attr-defined]


def test_a_folder_comes_to_a_host_as_it_was(folder: Path, output: str, tmp_path: Path) -> None:
    copied: list[int] = []
    staged = stage(str(folder), output, copied.append)
    assert staged.copied and staged.bytes == sum(copied) == 5 + len(BIG)
    assert (staged.sha256, staged.bytes) == measure(str(folder), output)
    assert downloaded(output, staged.sha256, tmp_path / "host" / "data" / staged.sha256) == {
        "a.csv": b"1,2\n",
        "empty": b"",
        ".tmp-of-the-user": b"x",
        "deep/er/b é.bin": BIG,
    }
    manifest = json.loads((tmp_path / "host" / "data" / f"{staged.sha256}.json").read_bytes())
    assert (manifest["kind"], manifest["name"]) == ("folder", "source")
    assert {path.name for path in (tmp_path / "host" / "data").iterdir()} == {staged.sha256, f"{staged.sha256}.json"}


def test_a_file_comes_under_its_name(folder: Path, output: str, tmp_path: Path) -> None:
    staged = stage(str(folder / "a.csv"), output)
    assert downloaded(output, staged.sha256, tmp_path / "host") == {"a.csv": b"1,2\n"}
    assert staged.sha256 != stage(str(folder), output).sha256


def test_a_bucket_names_data_as_the_disk_does(folder: Path, output: str, tmp_path: Path) -> None:
    assert stage(str(folder), output).sha256 == stage(str(folder), str(tmp_path / "disk")).sha256


def test_unchanged_data_is_not_sent_again(folder: Path, output: str, gcs: Gcs) -> None:
    stage(str(folder), output)
    (folder / "a.csv").touch()
    copied: list[int] = []
    with gcs.watched() as requests:
        assert not stage(str(folder), output, copied.append).copied
    assert copied == [] and uploads(requests) == []


def test_what_was_cut_short_goes_on_where_it_was(folder: Path, output: str, gcs: Gcs, tmp_path: Path) -> None:
    staged = stage(str(folder), output)
    storage = open_storage(output)
    storage.delete(f"{layout.data(staged.sha256)}.json")
    storage.delete(f"{layout.data(staged.sha256)}/a.csv")
    with pytest.raises(NotStaged, match=r"is not staged\. Start the job again"):
        download_data(open_on_host(output), staged.sha256, tmp_path / "host")
    with gcs.watched() as requests:
        assert stage(str(folder), output).copied
    assert [name.removeprefix(f"jobs/{layout.DATA_FOLDER}/{staged.sha256}") for name in uploads(requests)] == [
        "/a.csv",
        ".json",
    ]


HARM: dict[str, Callable[[Storage, str], object]] = {
    "other bytes": lambda s, data: s.put(f"{data}/a.csv", b"1,3\n"),
    "longer": lambda s, data: s.put(f"{data}/a.csv", b"1,2,3\n"),
    "gone": lambda s, data: s.delete(f"{data}/a.csv"),
    "stray": lambda s, data: s.put(f"{data}/stray.csv", b""),
}


@pytest.mark.parametrize("harm", HARM)
def test_data_that_somebody_touched_is_refused_by_a_host_and_laid_down_again(
    folder: Path, output: str, tmp_path: Path, harm: str
) -> None:
    staged = stage(str(folder), output)
    HARM[harm](open_storage(output), layout.data(staged.sha256))
    with pytest.raises(NotStaged, match="is not what was staged: somebody changed it"):
        download_data(open_on_host(output), staged.sha256, tmp_path / "host" / "data")
    assert list((tmp_path / "host").iterdir()) == []
    assert stage(str(folder), output).copied
    assert len(downloaded(output, staged.sha256, tmp_path / "host" / "data")) == 4
    assert not stage(str(folder), output).copied


def test_data_that_changes_while_it_is_sent_is_refused_and_never_spoils_what_is_there(
    folder: Path, output: str
) -> None:
    def meanwhile(_: int) -> None:
        for name in ("a.csv", "deep/er/b é.bin"):
            (folder / name).write_bytes(b"other")

    for number in range(30):  # more than are sent at once
        (folder / f"part-{number}").write_bytes(b"%d" % number)
    with pytest.raises(UsageError, match="changes while it is copied: stage it again"):
        stage(str(folder), output, meanwhile)
    storage = open_storage(output)
    assert [name for name in storage.list(layout.DATA_FOLDER) if name.endswith(".json")] == []
    assert b"other" not in {storage.get(name) for name in storage.list(layout.DATA_FOLDER)}


def test_many_who_stage_the_same_data_at_once_all_find_it(folder: Path, output: str, tmp_path: Path) -> None:
    meet = threading.Barrier(6)

    def stage_with_the_others(_: int) -> str:
        meet.wait(30)
        return stage(str(folder), output).sha256

    with ThreadPoolExecutor(6) as pool:
        (sha256,) = set(pool.map(stage_with_the_others, range(6)))
    assert not stage(str(folder), output).copied
    assert len(downloaded(output, sha256, tmp_path / "host")) == 4


def test_what_a_host_has_is_not_fetched_again_and_what_was_cut_short_is(
    folder: Path, output: str, gcs: Gcs, tmp_path: Path
) -> None:
    staged = stage(str(folder), output)
    host = tmp_path / "host"
    downloaded(output, staged.sha256, host)
    with gcs.watched() as requests:
        downloaded(output, staged.sha256, host)
    assert requests == []
    host.with_name("host.json").unlink()
    (host / "stray").write_bytes(b"")
    assert len(downloaded(output, staged.sha256, host)) == 4


def test_names_that_a_bucket_cannot_have_and_sources_that_are_urls_are_refused(folder: Path, output: str) -> None:
    with pytest.raises(UsageError, match=r"Data gs://b/x is no file of this machine.* Pass its URL to the program"):
        stage("gs://b/x", output)
    (folder / "two\nlines").write_bytes(b"")
    with pytest.raises(UsageError, match="cannot be a name in .*Rename it"):
        stage(str(folder), output)
