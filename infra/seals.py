"""Is a checkpoint whole? A seal beside it, written last, lists its files with their sizes and check sums.

Orbax restores an array of which a bit has flipped on the disk as if nothing had happened. A bucket keeps a check sum
of each object itself: there a look is enough to know.

`root` is the storage of a job's checkpoints, with one folder per attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import PurePosixPath
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Facts, Storage

MOST_SUMMED_BYTES = 4 * 2**30  # beyond that, reading it again would delay the next save and the next start too long
_READ = "crc32"  # the kind of check sum that a disk gives: by reading
# What reading a damaged seal raises.
_DAMAGES = (contract.ContractError, KeyError, AttributeError, TypeError, ValueError)
Files = Mapping[str, Facts]


def step_folder(point: RestorePoint) -> str:
    """Where Orbax writes a step, as seen from `root`."""
    return f"{point.attempt}/{point.step}"


def seal(root: Storage, point: RestorePoint, **facts: Any) -> bool:
    """Declare a committed checkpoint whole; False where it was before."""
    files = _files(root, point)
    content = {
        "attempt": point.attempt,
        "step": point.step,
        "files": {name: file.bytes for name, file in files.items()},
        **_sums(root, point, files),
        **facts,
    }
    return root.put_if_absent(_name(point), contract.write_json(content))


def is_whole(root: Storage, point: RestorePoint) -> bool:
    """Whether the checkpoint was sealed and every file of its seal is there as far as a look tells: nothing is read."""
    return _readable_flaw(root, point, reads=False) is None


def said(root: Storage, point: RestorePoint) -> dict[str, Any] | None:
    """What the seal of a whole checkpoint says, with the `facts` that `seal` was given; None where a look tells that it
    is not whole.
    """
    try:
        sealed = _read(root, point)
        return sealed if _flaw_of(root, point, sealed, reads=False) is None else None
    except (*_DAMAGES, OSError, PlatformError):
        return None


def flaw(root: Storage, point: RestorePoint) -> str | None:
    """Why a checkpoint is not what was sealed; None where it is. Reads what the seal has sums of, where a look does not
    tell.

    A seal that cannot be read, or that lists no files, seals nothing.
    """
    return _readable_flaw(root, point, reads=True)


def _readable_flaw(root: Storage, point: RestorePoint, *, reads: bool) -> str | None:
    try:
        return lasting_flaw(root, point, reads=reads)
    except (OSError, PlatformError) as exc:
        return f"It cannot be read: {exc}."


def lasting_flaw(root: Storage, point: RestorePoint, *, reads: bool) -> str | None:
    """As `flaw`; but where the storage cannot be read, which may pass, that is raised as it is.

    reads: what the seal has sums of is read, where a look does not tell.
    """
    try:
        return _flaw_of(root, point, _read(root, point), reads=reads)
    except contract.ContractError as exc:
        return str(exc)
    except _DAMAGES as exc:
        return f"Its seal is damaged ({exc!r})."


def _read(root: Storage, point: RestorePoint) -> dict[str, Any]:
    return contract.read_json(root.get(_name(point)) or b"", "Its seal")


def _flaw_of(root: Storage, point: RestorePoint, sealed: Mapping[str, Any], *, reads: bool) -> str | None:
    found = _files(root, point)
    changed = [name for name, size in sealed["files"].items() if name not in found or found[name].bytes != size]
    if not sealed["files"]:
        return "Its seal lists no files."
    if not changed:
        changed = list(_summed_otherwise(root, point, _expected(sealed), found, reads=reads))
    return f"{changed[0]} is missing or was changed after it was sealed." if changed else None


def _summed_otherwise(
    root: Storage, point: RestorePoint, expected: Mapping[str, str], found: Files, *, reads: bool
) -> Iterator[str]:
    """Files with another check sum. Kinds that differ say nothing: the job was copied between a disk and a bucket."""
    for name, wanted in expected.items():
        sum_ = found[name].checksum
        if sum_ is None and reads and wanted.startswith(f"{_READ}:"):
            sum_ = root.checksum(f"{step_folder(point)}/{name}")
        if sum_ is not None and _kind(sum_) == _kind(wanted) and sum_ != wanted:
            yield name


def newest_first(root: Storage) -> list[RestorePoint]:
    """All sealed checkpoints: a later step counts more, then a later attempt."""
    return sorted(_sealed(root), key=rank, reverse=True)


def rank(point: RestorePoint) -> tuple[int, int]:
    """What makes one checkpoint newer than another."""
    return point.step, point.attempt


def newest_whole(root: Storage) -> RestorePoint | None:
    """The whole checkpoint with the highest step; of equals the latest attempt's."""
    return next((point for point in newest_first(root) if flaw(root, point) is None), None)


def _sealed(root: Storage) -> Iterator[RestorePoint]:
    for attempt in filter(str.isdecimal, root.children("")):
        for name in root.children(attempt):
            step = name.removesuffix(layout.SEALED)
            if step != name and step.isdecimal():
                yield RestorePoint(attempt=int(attempt), step=int(step))


def _name(point: RestorePoint) -> str:
    """The seal's name as seen from `root`; `layout` names it from the job's folder."""
    named = PurePosixPath(layout.checkpoint_seal(point.attempt, point.step))
    return str(named.relative_to(named.parts[0]))


def _files(root: Storage, point: RestorePoint) -> Files:
    """Name within the checkpoint → what is known of it."""
    folder = f"{step_folder(point)}/"
    return {name.removeprefix(folder): facts for name, facts in root.facts(folder).items()}


def _sums(root: Storage, point: RestorePoint, files: Files) -> dict[str, dict[str, Any]]:
    """What a seal says of the bytes: numbers under their kind where they were read, else the storage's own words."""
    kept = {name: file.checksum for name, file in files.items() if file.checksum is not None}
    read = [name for name in _summed(files) if name not in kept]
    sums = {name: root.checksum(f"{step_folder(point)}/{name}") for name in read}
    crc32 = {name: int(value.removeprefix(f"{_READ}:"), 16) for name, value in sums.items()}
    return {_READ: crc32} if not kept else {"checksums": kept}


def _expected(sealed: Mapping[str, Any]) -> dict[str, str]:
    """Name → check sum, as `Storage.checksum` words it."""
    return {
        **{name: f"{_READ}:{crc:08x}" for name, crc in sealed.get(_READ, {}).items()},
        **sealed.get("checksums", {}),
    }


def _kind(checksum: str) -> str:
    return checksum.partition(":")[0]


def _summed(files: Files) -> list[str]:
    """Smallest first: what a small file says, such as the shape of an array, weighs most."""
    names = sorted(files, key=lambda name: (files[name].bytes, name))
    bytes_before = accumulate((files[name].bytes for name in names), initial=0)
    return [
        name
        for name, before in zip(names, bytes_before, strict=False)
        if before + files[name].bytes <= MOST_SUMMED_BYTES
    ]
