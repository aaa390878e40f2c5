"""Where does a job find its data? Local files and folders, laid down once by their content.

Data lies beside the jobs of an output, named by its hash: unchanged data is
not copied again, whichever job asks.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
        UsageError: the source is not there, is empty, holds what is no file, or changes while it is copied.
        PlatformError: it could not be read or written.
    """
    path, files = _found(source, output)
    try:
        sha256, size = _measured(path, files)
        storage = LocalStorage(output)
        target, manifest = storage.path(layout.data(sha256)), f"{layout.data(sha256)}.json"
        if _lies_there(storage.get(manifest), target):
            return Staged(sha256=sha256, bytes=size, copied=False)
        facts = {"kind": "folder" if path.is_dir() else "file", "name": path.resolve().name, "bytes": size}
        with _copied_beside(files, target, path.is_dir(), copied) as copy, _alone(target):
            if not _lies_there(storage.get(manifest), target):  # nobody laid it down while it was copied
                storage.delete(manifest)
                _put_in_place(copy, target)
                storage.put(manifest, contract.write_json({**facts, "laid": _look(target)}))
    except OSError as exc:
        raise PlatformError(f"Could not stage {source} into {output}: {exc.strerror or exc}.") from exc
    return Staged(sha256=sha256, bytes=size, copied=True)


def measure(source: str, output: str) -> tuple[str, int]:
    """The hash and the bytes that data would have; nothing is written. Raises as `stage` does."""
    path, files = _found(source, output)
    try:
        return _measured(path, files)
    except OSError as exc:
        raise PlatformError(f"Data {source} cannot be read: {exc.strerror or exc}. Check its permissions.") from exc


def _found(source: str, output: str) -> tuple[Path, dict[str, Path]]:
    if not source:
        raise UsageError("Data is named by an empty path: give a file or a folder.")
    path = Path(source).expanduser()
    _check_apart(path, Path(output).expanduser())
    return path, _files(path)


def _measured(path: Path, files: dict[str, Path]) -> tuple[str, int]:
    return _hash(files, path.is_dir()), sum(file.stat().st_size for file in files.values())


def _lies_there(manifest: bytes | None, target: Path) -> bool:
    """Whether the data was laid down and nobody has touched it since: what a job trains on is what was staged."""
    try:
        return contract.read_json(manifest or b"", "manifest").get("laid") == _look(target)
    except contract.ContractError:
        return False


def _look(target: Path) -> str:
    """How the files look without reading them: names, sizes and times of change."""
    looks = hashlib.sha256()
    for name, file in sorted((str(file.relative_to(target)), file) for file in target.rglob("*")):
        facts = file.stat()
        if not file.is_dir():
            looks.update(os.fsencode(f"{name}\0{facts.st_size} {facts.st_mtime_ns}\n"))
    return looks.hexdigest()


def _check_apart(path: Path, output: Path) -> None:
    """A folder that holds the output would grow by its own copy, and by every job."""
    if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
        raise UsageError(
            f"Data folder {path} holds the output {output}, where it would be copied to: give another output, or stage"
            " the folders of it that the program reads."
        )


def _files(path: Path) -> dict[str, Path]:
    """Name within the data → file."""
    if path.is_symlink() and not path.exists():
        raise UsageError(f"Data {path} is a link that leads nowhere: give what it should lead to.")
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
    digests = {}
    for name, path in files.items():
        with path.open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return _whole(digests, is_folder)


def _whole(digests: dict[str, str], is_folder: bool) -> str:
    whole = hashlib.sha256(b"folder\n" if is_folder else b"file\n")
    for name in sorted(digests):
        whole.update(os.fsencode(f"{name}\0{digests[name]}\n"))
    return whole.hexdigest()


@contextmanager
def _copied_beside(files: dict[str, Path], target: Path, is_folder: bool, copied: Copied) -> Iterator[Path]:
    """A whole copy beside the target, so that one cut short is never taken for the data; gone at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=layout.TEMPORARY))
    try:
        digests = {name: _copy(file, temporary / ".new" / name, copied) for name, file in files.items()}
        if _whole(digests, is_folder) != target.name:
            raise UsageError("The data changes while it is copied: stage it again when nothing writes to it.")
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
        while block := read.read(_BLOCK_BYTES):
            write.write(block)
            digest.update(block)
            copied(len(block))
        os.fchmod(write.fileno(), 0o444)
    return digest.hexdigest()
