"""Which checkpoints of a job are whole, and which may go?

A checkpoint counts only when it is sealed: after its last byte the leader
writes the list of its files with their sizes and check sums.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from prefect_tpu.infra import layout, seals
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import LocalStorage

log = logging.getLogger(__name__)
KEPT = 3


def sealed(storage: LocalStorage) -> list[RestorePoint]:
    """Sealed checkpoints, newest first: a later step counts more, then a later attempt."""
    return seals.newest_first(storage.path(layout.CHECKPOINTS))


def saved_step(storage: LocalStorage, attempt: int) -> int | None:
    """The furthest step that an attempt sealed; None where it sealed none."""
    return max((point.step for point in sealed(storage) if point.attempt == attempt), default=None)


def newest_whole(storage: LocalStorage, *, below: int) -> RestorePoint | None:
    """The newest checkpoint of the attempts below a number that is what was sealed; it is read to know.

    Newer ones that are not are told of: whoever wonders why steps are done again shall find out.
    """
    for point in sealed(storage):
        if point.attempt >= below:
            continue
        flaw = seals.flaw(storage.path(layout.CHECKPOINTS), point)
        if flaw is None:
            return point
        log.warning("The checkpoint %s is passed over. %s", _folder(storage, point), flaw)
    return None


def is_whole(storage: LocalStorage, point: RestorePoint) -> bool:
    """Whether every file of its seal is there in its size."""
    return seals.is_whole(storage.path(layout.CHECKPOINTS), point)


def prune(storage: LocalStorage, *, in_use: RestorePoint | None) -> list[RestorePoint]:
    """Delete all but the newest whole checkpoints, by a look; never the newest one, never the one in use.

    What an ended attempt left without a seal goes too: nobody will finish it.
    """
    points = sealed(storage)
    kept = [point for point in points if is_whole(storage, point)][:KEPT]
    if not kept:
        return []
    gone = [p for p in points if p not in kept and p != in_use and seals.rank(p) < seals.rank(kept[-1])]
    for point in gone:
        storage.delete(layout.checkpoint_seal(point.attempt, point.step))  # first: from here on it does not count
        shutil.rmtree(_folder(storage, point), ignore_errors=True)
    for folder in _unfinished(storage):
        shutil.rmtree(folder, ignore_errors=True)
    return gone


def _unfinished(storage: LocalStorage) -> list[Path]:
    """Folders without a seal below ended attempts: saves cut short, Orbax's temporary ones, prunes cut short."""
    found = (path for path in storage.path(layout.CHECKPOINTS).glob("*/*") if path.is_dir())
    return [path for path in found if _has_ended(storage, path.parent.name) and not _seal_of(path).exists()]


def _has_ended(storage: LocalStorage, attempt: str) -> bool:
    return attempt.isdecimal() and storage.get(layout.outcome(int(attempt))) is not None


def _seal_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{layout.SEALED}")


def _folder(storage: LocalStorage, point: RestorePoint) -> Path:
    return seals.step_folder(storage.path(layout.CHECKPOINTS), point)
