"""How is a file written whole on this machine's disk, and what does it mean when the disk refuses?"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from prefect_tpu.infra.errors import PlatformError, RefusedForGood
from prefect_tpu.infra.layout import TEMPORARY

BLOCK_BYTES = 2**20


@contextmanager
def told(verb: str, path: Path) -> Iterator[None]:
    """What the disk refuses in the block is a `PlatformError` that says what to do."""
    try:
        yield
    except OSError as exc:
        raise disk_refusal(verb, Path(exc.filename or path), exc) from exc


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """An open file to read from."""
    try:
        file = path.open("rb")
    except OSError as exc:
        raise disk_refusal("read", path, exc) from exc
    with file:
        yield file


@contextmanager
def written_beside(path: Path) -> Iterator[tuple[BinaryIO, str]]:
    """(an open temporary file in the same folder, its name); gone afterwards whatever happened."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
        with os.fdopen(descriptor, "wb") as file:
            yield file, temporary
    except OSError as exc:
        raise disk_refusal("write", path, exc) from exc
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """An open file that takes the path's place at the block's end, if nothing was raised."""
    with written_beside(path) as (file, temporary):
        yield file
        sync(file)
        os.replace(temporary, path)


def sync(file: BinaryIO) -> None:
    """What was written is on the disk, also after a crash of the machine."""
    file.flush()
    os.fsync(file.fileno())


_IN_THE_WAY = "A file lies where a folder must be: move it away, or name another folder."
_NO_ROOM = "Free some space, or name a folder on another disk."
_FORBIDDEN = "Check its permissions, or name another folder."
_FOR_GOOD = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_ADVICE = {
    errno.ENOTDIR: _IN_THE_WAY,
    errno.EEXIST: _IN_THE_WAY,
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EFBIG: _NO_ROOM,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: _FORBIDDEN,
    errno.ENOENT: "Nothing can be made there: name another folder.",
    errno.EISDIR: "A folder lies where a file must be: move it away.",
    errno.ENAMETOOLONG: "Name a folder with a shorter path.",
}


def disk_refusal(verb: str, path: Path, exc: OSError) -> PlatformError:
    """What the disk refused, of which file, and what to do."""
    advice = _ADVICE.get(exc.errno or 0, "Check its permissions and the free space.")
    error = RefusedForGood if exc.errno in _FOR_GOOD else PlatformError
    return error(f"Could not {verb} {path}: {exc.strerror or exc}. {advice}")
