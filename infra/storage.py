"""Where bytes lie: one small interface, the local disk behind it, and who opens which.

Writes are atomic: a reader sees the old bytes or the new ones, never a part.
`put_if_absent` is the only lock of the whole product.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol, cast

from prefect_tpu.infra.disk import BLOCK_BYTES, disk_refusal, opened, replacing, sync, written_beside
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.layout import TEMPORARY
from prefect_tpu.infra.loading import load

BUCKET = "gs://"  # how the URLs of buckets begin
AT_ONCE = 8  # requests to a bucket of one call of ours that go side by side

# Who knows buckets: the words know no Google, and a host's image has none of its packages.
_OF_THE_LAUNCHER = "prefect_tpu.infra.gcp.storage"
_OF_A_HOST = "prefect_tpu.infra.host.objects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of a name without reading it.

    changed: in seconds since the epoch, by the storage's clock.
    checksum: as `Storage.checksum` gives it, where it is kept beside the bytes; None where they must be read for it.
    """

    bytes: int
    changed: float
    checksum: str | None = None


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

    def put_file(self, name: str, file: Path, md5: str | None = None) -> None:
        """Write or replace with what a file holds, atomically, however big. Where its MD5 is given, as hexadecimal
        digits, other bytes are a `PlatformError` and nothing is written.
        """
        ...

    def get_file(self, name: str, file: Path) -> bool:
        """Write or replace a file, atomically, with the bytes of a name; False where nothing has that name."""
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


def checked_name(name: str, inside: str) -> str:
    """The name in one spelling. Raises `UsageError` for one that leaves the folder."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or "\0" in name:
        raise UsageError(f"{name!r} is not a name inside {inside}: use relative names without '..'.")
    return "/".join(parts)


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
        return self.root / checked_name(name, str(self.root))

    def get(self, name: str) -> bytes | None:
        path = self.path(name)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise disk_refusal("read", path, exc) from exc

    def put(self, name: str, data: bytes) -> None:
        path = self.path(name)
        with replacing(path) as file:
            file.write(data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        path = self.path(name)
        if path.exists():
            return False
        with written_beside(path) as (file, temporary):
            file.write(data)
            sync(file)
            try:
                os.link(temporary, path)  # unlike an O_EXCL open, this never shows half a file
            except FileExistsError:
                return False
        return True

    def put_file(self, name: str, file: Path, md5: str | None = None) -> None:
        path, digest = self.path(name), hashlib.md5(usedforsecurity=False)
        with opened(file) as source, replacing(path) as target:
            while block := source.read(BLOCK_BYTES):
                target.write(block)
                digest.update(block)
            if md5 not in (None, digest.hexdigest()):
                raise changed_meanwhile(file, str(path))

    def get_file(self, name: str, file: Path) -> bool:
        path = self.path(name)
        try:
            with path.open("rb") as source, replacing(file) as target:
                shutil.copyfileobj(source, target, BLOCK_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as exc:
            raise disk_refusal("read", path, exc) from exc
        return True

    def children(self, folder: str) -> list[str]:
        path = self.root / folder if folder else self.root
        try:
            return sorted(name for name in os.listdir(path) if not name.startswith(TEMPORARY))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise disk_refusal("list", path, exc) from exc

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
            raise disk_refusal("read", self.path(name), exc) from exc

    def checksum(self, name: str) -> str:
        value = 0
        try:
            with self.path(name).open("rb") as file:
                while block := file.read(BLOCK_BYTES):
                    value = zlib.crc32(block, value)
        except OSError as exc:
            raise disk_refusal("read", self.path(name), exc) from exc
        return f"crc32:{value:08x}"

    def delete(self, name: str) -> None:
        path = self.path(name)
        try:
            path.unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as exc:
            raise disk_refusal("delete", path, exc) from exc

    def delete_folder(self, folder: str) -> None:
        shutil.rmtree(self.path(folder), ignore_errors=True)

    def inside(self, folder: str) -> LocalStorage:
        return LocalStorage(self.path(folder))

    def where(self, name: str) -> str:
        return str(self.path(name))


def changed_meanwhile(file: Path, where: str) -> PlatformError:
    """A file is not what it was when its hash was taken."""
    return PlatformError(f"{file} changed while it was written to {where}: do it again when nothing writes to it.")


def has_changed(file: Path, md5: str | None) -> bool:
    """Whether a file is not what it was when its MD5 was taken; no where none was."""
    if md5 is None:
        return False
    with opened(file) as content:
        return hashlib.file_digest(content, "md5").hexdigest() != md5


def open_storage(url: str) -> Storage:
    """The storage behind an output URL. Raises `UsageError` for what is no place to write to."""
    return _open(url, _OF_THE_LAUNCHER)


def open_on_host(url: str) -> Storage:
    """As `open_storage`, on a host: with nothing but Python and the rights of its machine."""
    return _open(url, _OF_A_HOST)


def _open(url: str, who_knows_buckets: str) -> Storage:
    if "\0" in url or not is_text(url):
        raise UsageError(f"Output {url!r} is not the name of a folder: give one in UTF-8.")
    if url.startswith(BUCKET):
        return cast(Storage, load(who_knows_buckets).open_bucket(url))
    if "://" in url and not url.startswith("file://"):
        raise UsageError(f"Output {url!r} is not supported: give a folder of this machine, or gs://bucket/folder.")
    return LocalStorage(url.removeprefix("file://"))


def local_folder(storage: Storage) -> Path | None:
    """The folder of this machine that a storage is; None of a bucket."""
    return storage.root if isinstance(storage, LocalStorage) else None


def is_text(name: str) -> bool:
    """Bytes of a path that are no UTF-8 arrive as surrogates, which no record and no log can hold."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
