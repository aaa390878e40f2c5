"""Where does a job find its data? Local files and folders, laid down once by their content.

Data lies beside the jobs of an output, named by its hash: unchanged data is not copied again, whichever job asks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prefect_tpu.infra import laying_in_bucket, laying_on_disk, sources
from prefect_tpu.infra.content import manifest_name, read_manifest
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.sources import Copied
from prefect_tpu.infra.storage import LocalStorage, open_storage

STAGED = "sha256:"  # how data is named that lies in the output already
_HASH = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Data under its hash. `copied` is False where it lay there already."""

    sha256: str
    bytes: int
    copied: bool


def stage(source: str, output: str, copied: Copied = lambda _: None) -> Staged:
    """Lay a file or folder down below `output` by its content.

    Args:
        source: a file or a folder of this machine, or `sha256:HASH` for what lies in this output already.
        output: the folder of all jobs, also one in a bucket.
        copied: called with the bytes of each piece that was copied; in a bucket the pieces are files.

    Raises:
        UsageError: the source is not there, is empty, holds what is no file, or changes while it is copied.
        PlatformError: it could not be read or written.
    """
    if source.startswith(STAGED):
        sha256, bytes = _lies_there(source, output)
        return Staged(sha256=sha256, bytes=bytes, copied=False)
    found = sources.find(source, output)
    try:
        measured = sources.measure(found)
        storage = open_storage(output)
        if isinstance(storage, LocalStorage):
            is_new = laying_on_disk.lay(measured, storage, copied)
        else:
            is_new = laying_in_bucket.lay(measured, storage, copied)
    except OSError as exc:
        raise PlatformError(f"Could not stage {source} into {output}: {exc.strerror or exc}.") from exc
    return Staged(sha256=measured.sha256, bytes=measured.bytes, copied=is_new)


def is_staged(source: str, output: str) -> bool:
    """Whether `sha256:HASH` lies in this output."""
    return open_storage(output).get(manifest_name(source.removeprefix(STAGED))) is not None


def check(source: str, output: str) -> None:
    """Raise `UsageError` where nothing is there to be laid down; nobody looks into it."""
    if source.startswith(STAGED):
        _lies_there(source, output)
    else:
        sources.place(source, output)


def measure(source: str, output: str) -> tuple[str, int]:
    """The hash and the bytes that data would have; nothing is written. Raises as `stage` does."""
    if source.startswith(STAGED):
        return _lies_there(source, output)
    found = sources.find(source, output)
    try:
        measured = sources.measure(found)
    except OSError as exc:
        raise PlatformError(f"Data {source} cannot be read: {exc.strerror or exc}. Check its permissions.") from exc
    return measured.sha256, measured.bytes


def _lies_there(source: str, output: str) -> tuple[str, int]:
    """Of data that is named by its hash."""
    sha256 = source.removeprefix(STAGED)
    raw = open_storage(output).get(manifest_name(sha256)) if _HASH.fullmatch(sha256) else None
    if raw is None:
        raise UsageError(f"Data {source!r} is not staged in {output}: give the file or folder itself.")
    return sha256, read_manifest(raw, f"The manifest of data {source!r}").bytes
