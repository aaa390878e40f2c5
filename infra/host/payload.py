"""Is the code that arrived the code that was sent, and where does it lie now?"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import zipfile
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Payload
from prefect_tpu.infra.disk import told
from prefect_tpu.infra.storage import Storage

WORK = "work"  # the program's working folder, inside the scratch folder


class PayloadRefused(Exception):
    """The payload is missing, changed or made for another Python; the message says which."""


def unpack(storage: Storage, sha256: str, folder: Path) -> None:
    """Check the payload's hash, then extract it.

    Raises:
        PayloadRefused: it is not what was sent.
        PlatformError: the disk refuses it.
    """
    name = layout.payload(sha256)
    raw = storage.get(name)
    if raw is None:
        raise PayloadRefused(f"The payload {name} is missing from {storage.url}. Run the job again to send it.")
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise PayloadRefused(
            f"The payload {name} in {storage.url} was changed after it was sent (its SHA-256 is {found[:12]}…)."
            " Delete it and run the job again."
        )
    extract(raw, folder, f"the payload {name}")


def extract(raw: bytes, folder: Path, what: str) -> None:
    """Lay the files of a zip down. Raises as `unpack` does."""
    try:
        with told("unpack the payload into", folder), zipfile.ZipFile(io.BytesIO(raw)) as archive:
            archive.extractall(folder)
    except zipfile.BadZipFile as exc:
        raise PayloadRefused(f"{what[:1].upper()}{what[1:]} cannot be unpacked into {folder}: {exc}.") from exc


def check_versions(folder: Path) -> None:
    """Refuse a function that this host may not be able to read.

    Bytecode loads under the Python minor version that wrote it, and cloudpickle
    promises nothing across its major versions.
    """
    written = json.loads((folder / Payload.VERSIONS).read_text())
    here = ".".join(map(str, sys.version_info[:2]))
    if written["python"] != here:
        raise PayloadRefused(
            f"The function was pickled by Python {written['python']} and this host has Python {here}."
            " Use the same minor version on both, or name the program as module:function."
        )
    found = _cloudpickle_version()
    if found is None or _major(written["cloudpickle"]) != _major(found):
        raise PayloadRefused(
            f"The function was pickled by cloudpickle {written['cloudpickle']} and this host has {found or 'none'}."
            " Install the same major version on both, or name the program as module:function."
        )


def _cloudpickle_version() -> str | None:
    from importlib import metadata  # a third of a host's start, and only where a function was sent

    try:
        return metadata.version("cloudpickle")
    except metadata.PackageNotFoundError:
        return None


def _major(version: str) -> str:
    return version.partition(".")[0]
