"""Where bytes lie: one small interface, and the local disk behind it.

Writes are atomic: a reader sees the old bytes or the new ones, never a part.
`put_if_absent` is the only lock of the whole product.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.layout import TEMPORARY


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a name without reading it. `changed` is in seconds since the epoch, by the storage's clock."""

    bytes: int
    changed: float


class Storage(Protocol):
    """A folder of named byte strings. Names are relative, with `/` between parts."""

    @property
    def url(self) -> str: ...

    def get(self, name: str) -> bytes | None:
        """The bytes, or `None` where nothing has that name."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write or replace, atomically."""
        ...

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write only where nothing has that name; False where something has."""
        ...

    def children(self, folder: str) -> list[str]:
        """What lies directly in a folder, files and folders by their last part, sorted."""
        ...

    def list(self, folder: str) -> list[str]:
        """All names below a folder, sorted; empty where there is no such folder."""
        ...

    def facts(self, folder: str) -> dict[str, Facts]:
        """Of all names below a folder, as `list` gives them: in one look, without reading."""
        ...

    def changed(self, name: str) -> float | None:
        """When a name was written last, in seconds since the epoch by the storage's clock; `None` without one."""
        ...

    def checksum(self, name: str) -> str:
        """Of the bytes of a name, as `kind:value`: read from the disk, or what a bucket keeps of an object."""
        ...

    def delete(self, name: str) -> None:
        """Remove one name; nothing happens where it is absent."""
        ...

    def delete_folder(self, folder: str) -> None:
        """Remove all names below a folder; nothing happens where there are none."""
        ...

    def inside(self, folder: str) -> Storage:
        """The same storage seen from a folder of it."""
        ...

    def where(self, name: str) -> str:
        """The path or URL of a name: for people, and for libraries that read and write by themselves."""
        ...


_BLOCK_BYTES = 2**20


class LocalStorage:
    """`Storage` on this machine's disk."""

    def __init__(self, root: Path | str) -> None:
        try:
            self.root = Path(os.path.abspath(Path(root).expanduser()))
        except FileNotFoundError as exc:
            raise UsageError(
                f"Output {str(root)!r} is relative, and the folder this process is in was deleted: change to one that"
                " is there, or give an absolute path."
            ) from exc

    @property
    def url(self) -> str:
        return str(self.root)

    def path(self, name: str) -> Path:
        """The file behind a name. Raises `UsageError` for a name that leaves the folder."""
        parts = Path(name).parts
        if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
            raise UsageError(f"{name!r} is not a name inside {self.root}: use relative names without '..'.")
        return self.root.joinpath(*parts)

    def get(self, name: str) -> bytes | None:
        path = self.path(name)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise _platform_error("read", path, exc) from exc

    def put(self, name: str, data: bytes) -> None:
        path = self.path(name)
        with _written_beside(path, data) as temporary:
            os.replace(temporary, path)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        path = self.path(name)
        if path.exists():
            return False
        with _written_beside(path, data) as temporary:
            try:
                os.link(temporary, path)  # unlike an O_EXCL open, this never shows half a file
            except FileExistsError:
                return False
        return True

    def children(self, folder: str) -> list[str]:
        path = self.root / folder if folder else self.root
        try:
            return sorted(name for name in os.listdir(path) if not name.startswith(TEMPORARY))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise _platform_error("list", path, exc) from exc

    def list(self, folder: str) -> list[str]:
        base = self.path(folder)
        found = (Path(parent, name) for parent, _, names in os.walk(base) for name in names)
        return sorted(str(path.relative_to(self.root)) for path in found if not path.name.startswith(TEMPORARY))

    def facts(self, folder: str) -> dict[str, Facts]:
        found = {}
        for name in self.list(folder):
            try:
                seen = self.path(name).stat()
            except FileNotFoundError:  # gone since it was listed
                continue
            found[name] = Facts(bytes=seen.st_size, changed=seen.st_mtime)
        return found

    def changed(self, name: str) -> float | None:
        try:
            return self.path(name).stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise _platform_error("read", self.path(name), exc) from exc

    def checksum(self, name: str) -> str:
        value = 0
        try:
            with self.path(name).open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    value = zlib.crc32(block, value)
        except OSError as exc:
            raise _platform_error("read", self.path(name), exc) from exc
        return f"crc32:{value:08x}"

    def delete(self, name: str) -> None:
        path = self.path(name)
        try:
            path.unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as exc:
            raise _platform_error("delete", path, exc) from exc

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(self.path(folder), ignore_errors=True)

    def inside(self, folder: str) -> LocalStorage:
        return LocalStorage(self.path(folder))

    def where(self, name: str) -> str:
        return str(self.path(name))


@contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[str]:
    """A synced temporary file in the same folder, gone afterwards whatever happened."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    except OSError as exc:
        raise _platform_error("write", path, exc) from exc
    finally:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)


_IN_THE_WAY = "A file lies where a folder must be: move it away, or name another folder."
_NO_ROOM = "Free some space, or name a folder on another disk."
_FORBIDDEN = "Check its permissions, or name another folder."
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


def _platform_error(verb: str, path: Path, exc: OSError) -> PlatformError:
    advice = _ADVICE.get(exc.errno or 0, "Check its permissions and the free space.")
    return PlatformError(f"Could not {verb} {path}: {exc.strerror or exc}. {advice}")


def open_storage(url: str) -> LocalStorage:
    """The storage behind an output URL. Raises `UsageError` for what is no place to write to."""
    if "\0" in url or not _is_text(url):
        raise UsageError(f"Output {url!r} is not the name of a folder: give one in UTF-8.")
    if "://" in url and not url.startswith("file://"):
        raise UsageError(f"Output {url!r} is not supported: give a folder of this machine.")
    return LocalStorage(url.removeprefix("file://"))


def _is_text(name: str) -> bool:
    """Bytes of a path that are no UTF-8 arrive as surrogates, which no record and no log can hold."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
