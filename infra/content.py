"""What is data called by its content, and what says that it lies there? Staging and hosts must agree on it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from prefect_tpu.infra import contract, layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Lies beside staged data, written last: without it the data is not all there.

    kind: "file" or "folder".
    name: of the file, below its hash; of the folder it was, for people.
    laid: how the data looked when it had been laid down, so that what somebody touched is found without reading.
    """

    kind: str
    name: str
    bytes: int = 0
    laid: str = ""

    @property
    def is_folder(self) -> bool:
        return self.kind == "folder"


def write_manifest(manifest: Manifest) -> bytes:
    """As it lies beside the data."""
    return contract.write_json(asdict(manifest))


def read_manifest(raw: bytes, what: str) -> Manifest:
    """Raises `ContractError`, with what is called `what`."""
    data = contract.read_json(raw, what)
    with contract.reading(what):
        return Manifest(
            kind=str(data["kind"]),
            name=str(data["name"]),
            bytes=int(data.get("bytes", 0)),
            laid=str(data.get("laid", "")),
        )


def manifest_name(sha256: str) -> str:
    """Of the manifest, as seen from the folder of all jobs."""
    return f"{layout.data(sha256)}.json"


def content_hash(digests: Mapping[str, str], *, is_folder: bool) -> str:
    """Of a file or a folder: from the SHA-256 of each file by its name in it."""
    whole = hashlib.sha256(b"folder\n" if is_folder else b"file\n")
    for name in sorted(digests):
        whole.update(os.fsencode(f"{name}\0{digests[name]}\n"))
    return whole.hexdigest()
