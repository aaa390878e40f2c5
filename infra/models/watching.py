"""Has anything changed at a place that is only watched? By names and check sums: nothing in a bucket is read for it."""

from __future__ import annotations

import hashlib

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.storage import BUCKET, Storage, local_folder, open_storage


def fingerprint(place: str) -> str:
    """Of all that lies below a folder or in a bucket, or of one file. Raises `UsageError` where nothing does."""
    storage, whole = open_storage(place), hashlib.sha256()
    parent, _, name = storage.url.rpartition("/")
    if f"{parent}/" == BUCKET:
        checksums = {found: sum_ for child in storage.children("") for found, sum_ in _at(storage, child).items()}
    else:
        checksums = _at(open_storage(parent or "/"), name)
    if not checksums:
        raise UsageError(f"Nothing lies at {place}, which is watched for new data: check the name.")
    for name in sorted(checksums):
        whole.update(f"{name}\0{checksums[name]}\n".encode(errors="surrogateescape"))
    return whole.hexdigest()


def _at(storage: Storage, name: str) -> dict[str, str]:
    """Name → check sum: of all below a folder, and of a file or object of that very name."""
    below = {found: facts.checksum or storage.checksum(found) for found, facts in storage.facts(name).items()}
    folder = local_folder(storage)
    if storage.changed(name) is None or (folder is not None and not (folder / name).is_file()):
        return below
    return {**below, name: storage.checksum(name)}
