"""How is data laid down on this machine's disk? As a whole copy that takes its place at once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.content import Manifest, content_hash, manifest_name, read_manifest, write_manifest
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.disk import BLOCK_BYTES
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.sources import CHANGED, Copied, Measured
from prefect_tpu.infra.storage import LocalStorage


def lay(measured: Measured, storage: LocalStorage, copied: Copied) -> bool:
    """Lay data down in the folder of all jobs; False where it lies there already. Raises `OSError`."""
    target, manifest = storage.path(layout.data(measured.sha256)), manifest_name(measured.sha256)
    if _lies_there(storage.get(manifest), target):
        return False
    source = measured.source
    facts = Manifest(kind="folder" if source.is_folder else "file", name=source.name, bytes=measured.bytes)
    with _copied_beside(source.files, target, source.is_folder, copied) as copy, _alone(target):
        if not _lies_there(storage.get(manifest), target):  # nobody laid it down while it was copied
            storage.delete(manifest)
            _put_in_place(copy, target)
            storage.put(manifest, write_manifest(replace(facts, laid=_look(target))))
    return True


def _lies_there(manifest: bytes | None, target: Path) -> bool:
    """Whether the data was laid down and nobody has touched it since: what a job trains on is what was staged."""
    try:
        return read_manifest(manifest or b"", "manifest").laid == _look(target)
    except ContractError:
        return False


def _look(target: Path) -> str:
    """How the files look without reading them: names, sizes and times of change."""
    looks = hashlib.sha256()
    for name, file in sorted((str(file.relative_to(target)), file) for file in target.rglob("*")):
        facts = file.stat()
        if not file.is_dir():
            looks.update(os.fsencode(f"{name}\0{facts.st_size} {facts.st_mtime_ns}\n"))
    return looks.hexdigest()


@contextmanager
def _copied_beside(files: Mapping[str, Path], target: Path, is_folder: bool, copied: Copied) -> Iterator[Path]:
    """A whole copy beside the target, so that one cut short is never taken for the data; gone at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=layout.TEMPORARY))
    try:
        digests = {name: _copy(file, temporary / ".new" / name, copied) for name, file in files.items()}
        if content_hash(digests, is_folder=is_folder) != target.name:
            raise UsageError(CHANGED)
        yield temporary / ".new"
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """One stager at a time puts data in place: the lock goes with its process, and is held for a few renames."""
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _put_in_place(copy: Path, target: Path) -> None:
    if target.exists():  # its manifest was never written, or somebody has touched it
        target.rename(copy.with_name(".left"))
    copy.rename(target)


def _copy(source: Path, target: Path, copied: Copied) -> str:
    """The SHA-256 of what was copied. Nobody has a reason to write to the copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("wb") as write:
        while block := read.read(BLOCK_BYTES):
            write.write(block)
            digest.update(block)
            copied(len(block))
        os.fchmod(write.fileno(), 0o444)
    return digest.hexdigest()
