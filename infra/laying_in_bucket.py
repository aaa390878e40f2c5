"""How is data laid down in a bucket? File by file, many at once, the manifest last; what lies there is not sent again.

Stagers of the same data may work side by side: under a name only the bytes of that name's hash are ever written.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.content import Manifest, manifest_name, read_manifest, write_manifest
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.disk import BLOCK_BYTES
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.sources import CHANGED, Copied, Measured
from prefect_tpu.infra.storage import AT_ONCE, Facts, Storage


def lay(measured: Measured, storage: Storage, copied: Copied) -> bool:
    """Lay data down in the folder of all jobs; False where it lies there already. Raises `OSError`."""
    folder, manifest = layout.data(measured.sha256), manifest_name(measured.sha256)
    found = storage.facts(folder)
    if _lies_there(storage.get(manifest), found):
        return False
    files = {f"{folder}/{name}": (file, measured.digests[name]) for name, file in measured.source.files.items()}
    sending = _Sending(storage=storage, found=found, copied=copied)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(lambda name: sending.send(name, *files[name]), files):
            pass
    for name in found.keys() - files.keys():  # nobody staged it: what lies there is what was named, and no more
        storage.delete(name)
    facts = Manifest(
        kind="folder" if measured.source.is_folder else "file",
        name=measured.source.name,
        bytes=measured.bytes,
        laid=_look(storage.facts(folder)),
    )
    storage.put(manifest, write_manifest(facts))
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sending:
    """What the threads of one laying share."""

    storage: Storage
    found: Mapping[str, Facts]
    copied: Copied
    telling: threading.Lock = field(default_factory=threading.Lock)

    def send(self, name: str, file: Path, sha256: str) -> None:
        """Send a file unless it is there. Whatever it has become since it was measured is never sent."""
        sha256_now, md5, size = _hashes(file)
        if sha256_now != sha256:
            raise UsageError(CHANGED)
        there = self.found.get(name)
        if there is None or there.checksum != f"md5:{md5}":
            self._put(name, file, sha256, md5)
        with self.telling:
            self.copied(size)

    def _put(self, name: str, file: Path, sha256: str, md5: str) -> None:
        """A bucket does not take bytes that are not those of the hash: they may have changed since it was made."""
        try:
            self.storage.put_file(name, file, md5)
        except PlatformError as exc:
            if _hashes(file)[0] != sha256:
                raise UsageError(CHANGED) from exc
            raise


def _lies_there(manifest: bytes | None, found: Mapping[str, Facts]) -> bool:
    """Whether the data was laid down and nobody has touched it since: what a job trains on is what was staged."""
    try:
        return read_manifest(manifest or b"", "manifest").laid == _look(found)
    except ContractError:
        return False


def _look(found: Mapping[str, Facts]) -> str:
    """How the objects look without reading them: names, sizes and what the bucket keeps of their bytes."""
    looks = hashlib.sha256()
    for name, facts in sorted(found.items()):
        looks.update(f"{name}\0{facts.bytes} {facts.checksum}\n".encode())
    return looks.hexdigest()


def _hashes(file: Path) -> tuple[str, str, int]:
    """(SHA-256, MD5, bytes), all of the same reading."""
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    with file.open("rb") as content:
        while block := content.read(BLOCK_BYTES):
            sha256.update(block)
            md5.update(block)
            size += len(block)
    return sha256.hexdigest(), md5.hexdigest(), size
