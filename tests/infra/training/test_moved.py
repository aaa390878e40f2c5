"""What a framework wrote as plain files is brought into storage, again and again alike, and back."""

from __future__ import annotations

from pathlib import Path

from prefect_tpu.infra import seals
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import LocalStorage, open_on_host
from prefect_tpu.infra.training import moved

POINT = RestorePoint(attempt=2, step=7)


def test_files_of_two_hosts_make_one_checkpoint(tmp_path: Path) -> None:
    root = LocalStorage(tmp_path / "root")
    for host in (0, 1, 1):  # the last one is brought again: its host was killed before it knew
        folder = tmp_path / f"host-{host}"
        (folder / "deep").mkdir(parents=True, exist_ok=True)
        (folder / "deep" / f"part-{host}").write_text(f"of {host}")
        moved.bring(folder, root, POINT)
    assert root.list("2/7") == ["2/7/deep/part-0", "2/7/deep/part-1"]
    seals.seal(root, POINT, devices=2, hosts=2)
    with moved.brought(root, POINT) as folder:
        assert (folder / "deep" / "part-1").read_text() == "of 1"
    assert seals.is_whole(root, POINT)  # what lies on a disk is read where it lies, and stays


def test_out_of_a_bucket_it_is_a_copy_that_is_gone_afterwards(bucket: str) -> None:
    root = open_on_host(bucket)
    root.put("2/7/deep/part", b"one")
    with moved.brought(root, POINT) as folder:
        assert (folder / "deep" / "part").read_bytes() == b"one"
    assert not folder.exists() and root.list("2/7") == ["2/7/deep/part"]
