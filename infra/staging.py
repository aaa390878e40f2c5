"""Where does a job find its data? Local files and folders, laid down once by their content.

Data lies beside the jobs of an output, named by its hash: unchanged data is
not copied again, whichever job asks.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.storage import LocalStorage

_BLOCK_BYTES = 2**20
Copied = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Data under its hash. `copied` is False where it lay there already."""

    sha256: str
    bytes: int
    copied: bool


def stage(source: str, output: str, copied: Copied = lambda _: None) -> Staged:
    """Lay a file or folder down below `output` by its content.

    Args:
        source: a file or a folder of this machine.
        output: the folder of all jobs.
        copied: called with the bytes of each piece that was copied.

    Raises:
        UsageError: the source is not there, or is empty, or holds what is no file.
        PlatformError: it could not be read or written.
    """
    if not source:
        raise UsageError("Data is named by an empty path: give a file or a folder.")
    path = Path(source).expanduser()
    files = _files(path)
    try:
        sha256, size = _hash(files, path.is_dir()), sum(file.stat().st_size for file in files.values())
        storage = LocalStorage(output)
        manifest = f"{layout.data(sha256)}.json"
        if storage.get(manifest) is not None:
            return Staged(sha256=sha256, bytes=size, copied=False)
        _lay_down(files, storage.path(layout.data(sha256)), copied)
    except OSError as exc:
        raise PlatformError(f"Could not stage {source} into {output}: {exc.strerror or exc}.") from exc
    kind = "folder" if path.is_dir() else "file"
    storage.put_if_absent(manifest, contract.write_json({"kind": kind, "name": path.resolve().name, "bytes": size}))
    return Staged(sha256=sha256, bytes=size, copied=True)


def _files(path: Path) -> dict[str, Path]:
    """Name within the data → file."""
    if not path.exists():
        raise UsageError(f"Data {path} is not there: check the path.")
    if path.is_file():
        return {path.resolve().name: path}
    if not path.is_dir():
        raise UsageError(f"Data {path} is neither a file nor a folder: copy what it gives into a file first.")
    files = {str(file.relative_to(path)): file for file in _walk(path)}
    if not files:
        raise UsageError(f"Data folder {path} holds no files.")
    return files


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder, onerror=_unreadable):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]  # not walked: refused below
        for name in sorted(names + links):
            file = Path(parent, name)
            if not file.is_file():
                raise UsageError(
                    f"Data {file} is neither a file nor a folder itself: remove it or stage another folder."
                )
            yield file


def _unreadable(exc: OSError) -> None:
    raise PlatformError(f"Data folder {exc.filename} cannot be read: {exc.strerror}. Check its permissions.") from exc


def _hash(files: dict[str, Path], is_folder: bool) -> str:
    """Of the names and the contents, whatever the order of the disk; a folder of one file is not that file."""
    whole = hashlib.sha256(b"folder\n" if is_folder else b"file\n")
    for name in sorted(files):
        with files[name].open("rb") as file:
            whole.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def _lay_down(files: dict[str, Path], target: Path, copied: Copied) -> None:
    """Beside the target first, so that a copy cut short is never taken for the data."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=".tmp-"))
    try:
        for name, file in files.items():
            copy = temporary / ".new" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            _copy(file, copy, copied)
        if target.with_name(f"{target.name}.json").exists():
            return  # another job laid the same data down meanwhile, and may read it already
        if target.exists():  # left by a copy whose manifest was never written
            target.rename(temporary / ".left")
        (temporary / ".new").rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _copy(source: Path, target: Path, copied: Copied) -> None:
    with source.open("rb") as read, target.open("wb") as write:
        while block := read.read(_BLOCK_BYTES):
            write.write(block)
            copied(len(block))
