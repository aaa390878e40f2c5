"""How does staged data come from a bucket onto this host's disk? All of it, checked by its content's hash."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.content import content_hash, manifest_name, read_manifest
from prefect_tpu.infra.disk import disk_refusal, replacing
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import AT_ONCE, Storage


class NotStaged(PlatformError):
    """What was staged is not there any more, or not as it was: another try finds no more."""


def download_data(storage: Storage, sha256: str, folder: Path) -> None:
    """Lay staged data down in a folder of this host, its manifest beside it as `<folder>.json`.

    What lies there whole already is left as it is.

    Args:
        storage: the folder of all jobs.
        sha256: the hash by which the data was staged.
        folder: where its files come to lie; a file lies in it under its name.

    Raises:
        NotStaged: the data is not there, or not what it was.
        PlatformError: it cannot be read, or the disk does not take it.
    """
    beside = folder.with_name(f"{folder.name}.json")
    if beside.exists():  # written last
        return
    raw = storage.get(manifest_name(sha256))
    if raw is None:
        raise NotStaged(f"Data {storage.where(layout.data(sha256))} is not staged. Start the job again to stage it.")
    manifest = read_manifest(raw, f"The manifest of data {sha256}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=layout.TEMPORARY) as temporary:
            _fetch(storage, sha256, Path(temporary) / "new", is_folder=manifest.is_folder)
            shutil.rmtree(folder, ignore_errors=True)  # without its manifest: cut short by the end of an earlier start
            (Path(temporary) / "new").rename(folder)
        with replacing(beside) as file:  # half of it would count as all of the data
            file.write(raw)
    except OSError as exc:
        raise disk_refusal("write", folder, exc) from exc


def _fetch(storage: Storage, sha256: str, folder: Path, *, is_folder: bool) -> None:
    where = storage.inside(layout.data(sha256))
    names = [name.removeprefix(f"{layout.data(sha256)}/") for name in storage.list(layout.data(sha256))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        digests = dict(zip(names, pool.map(lambda name: _fetch_file(where, name, folder / name), names), strict=True))
    if content_hash(digests, is_folder=is_folder) != sha256:
        raise NotStaged(
            f"Data {where.url} is not what was staged: somebody changed it. Start the job again to stage it anew."
        )


def _fetch_file(storage: Storage, name: str, file: Path) -> str:
    """Its SHA-256, of what lies on this disk now."""
    if not storage.get_file(name, file):
        raise NotStaged(f"Data {storage.where(name)} was deleted while it was read. Start the job again to stage it.")
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
