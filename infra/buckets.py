"""What is a bucket of Cloud Storage to us? A `Storage`, whoever carries the bytes: the launcher or a host.

Objects have whole names and no folders; here they get names inside a folder,
create-only writes that know their own, and errors that say what to do.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from prefect_tpu.infra.errors import PlatformError, RefusedForGood, UsageError
from prefect_tpu.infra.storage import AT_ONCE, BUCKET, Facts, checked_name, is_text

EMULATOR = "STORAGE_EMULATOR_HOST"  # the variable by which Google's own libraries are led to an emulator
WRITER = "prefect-tpu-writer"  # whose create-only write made an object: in its metadata
_LONGEST_NAME_BYTES = 1024  # https://cloud.google.com/storage/docs/objects#naming, read 2026-11
_NAME = re.compile(r"[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An object as Cloud Storage describes it.

    crc32c, md5: in hexadecimal digits; a composed object has no MD5.
    writer: whose create-only write it is; None of any other.
    """

    name: str
    bytes: int
    changed: float
    crc32c: str
    md5: str | None = None
    writer: str | None = None

    @property
    def checksum(self) -> str:
        """MD5 where there is one: files that end with their own CRC32C, such as TensorStore's, all have the same."""
        return f"crc32c:{self.crc32c}" if self.md5 is None else f"md5:{self.md5}"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Item:
        """Of the JSON API's words for it."""
        return cls(
            name=data["name"],
            bytes=int(data.get("size", 0)),
            changed=datetime.fromisoformat(data["updated"]).timestamp(),
            crc32c=base64.b64decode(data["crc32c"]).hex(),
            md5=base64.b64decode(data["md5Hash"]).hex() if data.get("md5Hash") else None,
            writer=(data.get("metadata") or {}).get(WRITER),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list: objects, and the beginnings of names that go on after a further `/`."""

    items: tuple[Item, ...]
    prefixes: tuple[str, ...] = ()


class Objects(Protocol):
    """The objects of one bucket by their whole names. What goes wrong is a `PlatformError`."""

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, data: bytes) -> None: ...

    def create(self, name: str, data: bytes, writer: str) -> bool:
        """Write only where nothing has that name; False where something has, be it this very write sent twice."""
        ...

    def send(self, name: str, file: Path, md5: str | None) -> None: ...

    def fetch(self, name: str, file: Path) -> bool: ...

    def look(self, name: str) -> Item | None: ...

    def pages(self, prefix: str, *, is_deep: bool) -> Iterator[Page]: ...

    def remove(self, name: str) -> None: ...


class BucketStorage:
    """`Storage` in a folder of a bucket."""

    def __init__(self, objects: Objects, bucket: str, folder: str = "") -> None:
        self._objects, self.bucket, self.folder = objects, bucket, folder
        self._is_there = False

    @property
    def url(self) -> str:
        return f"{BUCKET}{self.bucket}/{self.folder}".rstrip("/")

    def get(self, name: str) -> bytes | None:
        data = self._objects.read(self._object(name))
        if data is None:
            self._check_there()
        return data

    def put(self, name: str, data: bytes) -> None:
        self._objects.write(self._object(name), bytes(memoryview(data)))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        whole, writer = self._object(name), uuid.uuid4().hex
        if self._objects.create(whole, bytes(memoryview(data)), writer):
            return True
        found = self._objects.look(whole)  # an answer that got lost on the way may have said that we won
        return found is not None and found.writer == writer

    def put_file(self, name: str, file: Path, md5: str | None = None) -> None:
        self._objects.send(self._object(name), file, md5)

    def get_file(self, name: str, file: Path) -> bool:
        is_found = self._objects.fetch(self._object(name), file)
        if not is_found:
            self._check_there()
        return is_found

    def children(self, folder: str) -> list[str]:
        prefix = f"{self._object(folder)}/" if folder else self._prefix
        found: set[str] = set()
        for page in self._objects.pages(prefix, is_deep=False):
            found.update(item.name.removeprefix(prefix) for item in page.items)
            found.update(name.removeprefix(prefix).rstrip("/") for name in page.prefixes)
        return sorted(found - {""})

    def list(self, folder: str) -> list[str]:
        return sorted(self.facts(folder))

    def facts(self, folder: str) -> dict[str, Facts]:
        return {
            item.name.removeprefix(self._prefix): Facts(bytes=item.bytes, changed=item.changed, checksum=item.checksum)
            for item in self._below(folder)
            if not item.name.endswith("/")  # a folder that some tool made
        }

    def changed(self, name: str) -> float | None:
        found = self._objects.look(self._object(name))
        return None if found is None else found.changed

    def checksum(self, name: str) -> str:
        found = self._objects.look(self._object(name))
        if found is None:
            raise PlatformError(f"Could not read {self.where(name)}: it is not there.")
        return found.checksum

    def delete(self, name: str) -> None:
        self._objects.remove(self._object(name))

    def delete_folder(self, folder: str) -> None:
        names = [item.name for item in self._below(folder)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(self._objects.remove, names):
                pass

    def inside(self, folder: str) -> BucketStorage:
        return BucketStorage(self._objects, self.bucket, self._object(folder))

    def where(self, name: str) -> str:
        return f"{BUCKET}{self.bucket}/{self._object(name)}"

    @property
    def _prefix(self) -> str:
        return f"{self.folder}/" if self.folder else ""

    def _below(self, folder: str) -> Iterator[Item]:
        for page in self._objects.pages(f"{self._object(folder)}/", is_deep=True):
            yield from page.items

    def _object(self, name: str) -> str:
        """The whole name of an object. Raises `UsageError` for what Cloud Storage takes for no name."""
        whole = self._prefix + checked_name(name, self.url)
        if not is_text(whole) or "\n" in whole or "\r" in whole or len(whole.encode()) > _LONGEST_NAME_BYTES:
            raise UsageError(
                f"{name!r} cannot be a name in {self.url}: Cloud Storage takes UTF-8 without line ends, and at most"
                f" {_LONGEST_NAME_BYTES} bytes with its folders. Rename it."
            )
        return whole

    def _check_there(self) -> None:
        """Once: nothing is missing in a bucket that is missing itself, and reading an object says both alike."""
        if not self._is_there:
            next(self._objects.pages(self._prefix, is_deep=False), None)
            self._is_there = True


def split(url: str) -> tuple[str, str]:
    """(bucket, folder) of a URL. Raises `UsageError` for one that names no bucket."""
    bucket, _, folder = url.removeprefix(BUCKET).partition("/")
    if not _NAME.fullmatch(bucket):
        raise UsageError(
            f"Output {url!r} names no bucket: give gs://bucket/folder, with a bucket of a-z, 0-9, '-', '_' and '.'."
        )
    plain = folder.strip("/")
    return bucket, checked_name(plain, f"{BUCKET}{bucket}") if plain else ""


_FOR_GOOD = frozenset({401, 403, 404})  # HTTP answers that do not change until somebody changes something


def refusal(verb: str, url: str, *, code: int, said: str, advice: str) -> PlatformError:
    """What Cloud Storage refused, of which object, and what to do.

    Args:
        verb: what was tried.
        url: of the object or the bucket.
        code: of the HTTP answer; 0 where none came.
        said: Cloud Storage's own words, or the network's.
        advice: how whoever asks gets the right to.
    """
    bucket, said = url.removeprefix(BUCKET).partition("/")[0], said.strip().rstrip(".")
    what = {
        0: f"Cloud Storage cannot be reached: {said}. Check the network and run it again.",
        401: f"its credentials are not accepted. {advice}",
        403: f"it is forbidden: {said}. {advice}",
        404: f"{bucket!r} is no bucket. Make it (gcloud storage buckets create {BUCKET}{bucket}) or name another.",
    }.get(code, f"Cloud Storage answers with HTTP {code}: {said}. Run it again later.")
    error = RefusedForGood if code in _FOR_GOOD else PlatformError
    return error(f"Could not {verb} {url}: {what}")
