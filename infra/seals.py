"""Is a checkpoint whole? A seal beside it, written last, lists its files with their sizes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import LocalStorage

Files = dict[str, int]


def step_folder(root: Path, point: RestorePoint) -> Path:
    """Where Orbax writes a step. `root` holds one folder per attempt."""
    return root / str(point.attempt) / str(point.step)


def seal(root: Path, point: RestorePoint, **facts: Any) -> bool:
    """Declare a committed checkpoint whole; False where it was before."""
    content = {"attempt": point.attempt, "step": point.step, "files": _files(step_folder(root, point)), **facts}
    return LocalStorage(root).put_if_absent(_name(point), contract.write_json(content))


def is_whole(root: Path, point: RestorePoint) -> bool:
    """Whether the checkpoint was sealed and every file of its seal is there in its size.

    A seal that cannot be read, or that lists no files, seals nothing.
    """
    raw = LocalStorage(root).get(_name(point))
    try:
        sealed = contract.read_json(raw or b"", f"The seal of step {point.step}")["files"]
        found = _files(step_folder(root, point))
        return bool(sealed) and all(found.get(name) == size for name, size in sealed.items())
    except (contract.ContractError, KeyError, AttributeError, OSError):
        return False


def newest_first(root: Path) -> list[RestorePoint]:
    """All sealed checkpoints: a later step counts more, then a later attempt."""
    return sorted(_sealed(root), key=lambda point: (point.step, point.attempt), reverse=True)


def newest_whole(root: Path) -> RestorePoint | None:
    """The whole checkpoint with the highest step; of equals the latest attempt's."""
    return next((point for point in newest_first(root) if is_whole(root, point)), None)


def _sealed(root: Path) -> Iterator[RestorePoint]:
    for path in root.glob("*/*.sealed.json"):
        attempt, step = path.parent.name, path.name.split(".")[0]
        if attempt.isdecimal() and step.isdecimal():
            yield RestorePoint(attempt=int(attempt), step=int(step))


def _name(point: RestorePoint) -> str:
    """The seal's name as seen from `root`; `layout` names it from the job's folder."""
    named = PurePosixPath(layout.checkpoint_seal(point.attempt, point.step))
    return str(named.relative_to(named.parts[0]))


def _files(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
