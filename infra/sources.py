"""What is the data that a person names: which files, and what is it called by its content?"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prefect_tpu.infra.content import content_hash
from prefect_tpu.infra.errors import PlatformError, UsageError

CHANGED = "The data changes while it is copied: stage it again when nothing writes to it."
Copied = Callable[[int], None]  # told the bytes of each piece that was laid down


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file or a folder of this machine.

    files: name within the data → file.
    """

    path: Path
    files: Mapping[str, Path]

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    @property
    def name(self) -> str:
        return self.path.resolve().name


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A source that was read once. `digests` are the SHA-256 of its files, by their names within the data."""

    source: Source
    digests: Mapping[str, str]
    bytes: int

    @property
    def sha256(self) -> str:
        return content_hash(self.digests, is_folder=self.source.is_folder)


def find(source: str, output: str) -> Source:
    """The files behind a name. Raises `UsageError` for what cannot be staged into this output."""
    path = place(source, output)
    return Source(path=path, files=_files(path))


def place(source: str, output: str) -> Path:
    """Where they lie. Raises `UsageError` where nothing is there, and for what is never staged into this output."""
    if not source:
        raise UsageError("Data is named by an empty path: give a file or a folder.")
    if "://" in source:
        raise UsageError(
            f"Data {source} is no file of this machine: what lies elsewhere already is not staged. Pass its URL to the"
            " program as a parameter, and let the program read it there."
        )
    path = Path(source).expanduser()
    if "://" not in output:
        _check_apart(path, Path(output).expanduser())
    if path.is_symlink() and not path.exists():
        raise UsageError(f"Data {path} is a link that leads nowhere: give what it should lead to.")
    if not path.exists():
        raise UsageError(f"Data {path} is not there: check the path.")
    return path


def measure(source: Source) -> Measured:
    """Read all of it. Raises `OSError`."""
    digests = {}
    for name, path in source.files.items():
        with path.open("rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return Measured(source=source, digests=digests, bytes=sum(file.stat().st_size for file in source.files.values()))


def _check_apart(path: Path, output: Path) -> None:
    """A folder that holds the output would grow by its own copy, and by every job."""
    if path.is_dir() and output.resolve().is_relative_to(path.resolve()):
        raise UsageError(
            f"Data folder {path} holds the output {output}, where it would be copied to: give another output, or stage"
            " the folders of it that the program reads."
        )


def _files(path: Path) -> dict[str, Path]:
    """Name within the data → file."""
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
