"""Is a checkpoint whole? A seal beside it, written last, lists its files with their sizes and check sums.

Orbax restores an array of which a bit has flipped on the disk as if nothing had happened.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path, PurePosixPath
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import LocalStorage

Files = dict[str, int]
MOST_SUMMED_BYTES = 4 * 2**30  # beyond that, reading it again would delay the next save and the next start too long
_BLOCK_BYTES = 2**20


def step_folder(root: Path, point: RestorePoint) -> Path:
    """Where Orbax writes a step. `root` holds one folder per attempt."""
    return root / str(point.attempt) / str(point.step)


def seal(root: Path, point: RestorePoint, **facts: Any) -> bool:
    """Declare a committed checkpoint whole; False where it was before."""
    folder = step_folder(root, point)
    files = _files(folder)
    sums = {name: _sum(folder / name) for name in _summed(files)}
    content = {"attempt": point.attempt, "step": point.step, "files": files, "crc32": sums, **facts}
    return LocalStorage(root).put_if_absent(_name(point), contract.write_json(content))


def is_whole(root: Path, point: RestorePoint) -> bool:
    """Whether the checkpoint was sealed and every file of its seal is there in its size: a look, nothing is read."""
    return _flaw(root, point, reads=False) is None


def flaw(root: Path, point: RestorePoint) -> str | None:
    """Why a checkpoint is not what was sealed; None where it is. Reads what the seal has sums of.

    A seal that cannot be read, or that lists no files, seals nothing.
    """
    return _flaw(root, point, reads=True)


def _flaw(root: Path, point: RestorePoint, *, reads: bool) -> str | None:
    folder = step_folder(root, point)
    try:
        sealed = contract.read_json(LocalStorage(root).get(_name(point)) or b"", "Its seal")
        found = _files(folder)
        changed = [name for name, size in sealed["files"].items() if found.get(name) != size]
        if not sealed["files"]:
            return "Its seal lists no files."
        if not changed and reads:
            changed = [name for name, crc in sealed.get("crc32", {}).items() if _sum(folder / name) != crc]
    except contract.ContractError as exc:
        return str(exc)
    except (KeyError, AttributeError, TypeError) as exc:
        return f"Its seal is damaged ({exc!r})."
    except (OSError, PlatformError) as exc:
        return f"It cannot be read: {exc}."
    return f"{changed[0]} is missing or was changed after it was sealed." if changed else None


def newest_first(root: Path) -> list[RestorePoint]:
    """All sealed checkpoints: a later step counts more, then a later attempt."""
    return sorted(_sealed(root), key=rank, reverse=True)


def rank(point: RestorePoint) -> tuple[int, int]:
    """What makes one checkpoint newer than another."""
    return point.step, point.attempt


def newest_whole(root: Path) -> RestorePoint | None:
    """The whole checkpoint with the highest step; of equals the latest attempt's."""
    return next((point for point in newest_first(root) if flaw(root, point) is None), None)


def _sealed(root: Path) -> Iterator[RestorePoint]:
    for path in root.glob(f"*/*{layout.SEALED}"):
        attempt, step = path.parent.name, path.name.removesuffix(layout.SEALED)
        if attempt.isdecimal() and step.isdecimal():
            yield RestorePoint(attempt=int(attempt), step=int(step))


def _name(point: RestorePoint) -> str:
    """The seal's name as seen from `root`; `layout` names it from the job's folder."""
    named = PurePosixPath(layout.checkpoint_seal(point.attempt, point.step))
    return str(named.relative_to(named.parts[0]))


def _files(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _summed(files: Files) -> list[str]:
    """Smallest first: what a small file says, such as the shape of an array, weighs most."""
    names = sorted(files, key=lambda name: (files[name], name))
    bytes_before = accumulate((files[name] for name in names), initial=0)
    return [
        name for name, before in zip(names, bytes_before, strict=False) if before + files[name] <= MOST_SUMMED_BYTES
    ]


def _sum(file: Path) -> int:
    crc = 0
    with file.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            crc = zlib.crc32(block, crc)
    return crc
