"""Which checkpoints of a job are whole, and which may go?

A checkpoint counts only when it is sealed: after its last byte the leader
writes the list of its files with their sizes and check sums.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from prefect_tpu.infra import layout, seals
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage

log = logging.getLogger(__name__)
KEPT = 3


def sealed(storage: Storage) -> list[RestorePoint]:
    """Sealed checkpoints, newest first: a later step counts more, then a later attempt."""
    return seals.newest_first(storage.inside(layout.CHECKPOINTS))


def saved_step(storage: Storage, attempt: int) -> int | None:
    """The furthest step that an attempt sealed; None where it sealed none."""
    return max((point.step for point in sealed(storage) if point.attempt == attempt), default=None)


def newest_whole(storage: Storage, *, below: int) -> RestorePoint | None:
    """The newest checkpoint of the attempts below a number that is what was sealed; it is read to know.

    Newer ones that are not are told of: whoever wonders why steps are done again shall find out.
    """
    for point in sealed(storage):
        if point.attempt >= below:
            continue
        flaw = seals.flaw(storage.inside(layout.CHECKPOINTS), point)
        if flaw is None:
            return point
        log.warning("The checkpoint %s is passed over. %s", storage.where(_folder(point)), flaw)
    return None


def is_whole(storage: Storage, point: RestorePoint) -> bool:
    """Whether every file of its seal is there in its size."""
    return seals.is_whole(storage.inside(layout.CHECKPOINTS), point)


def prune(storage: Storage, *, in_use: RestorePoint | None) -> list[RestorePoint]:
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
        storage.delete_folder(_folder(point))
    for folder in _unfinished(storage):
        storage.delete_folder(folder)
    return gone


def _unfinished(storage: Storage) -> list[str]:
    """Folders without a seal below ended attempts: saves cut short, Orbax's temporary ones, prunes cut short."""
    left = []
    for attempt in storage.children(layout.CHECKPOINTS):
        if _has_ended(storage, attempt):
            names = storage.children(f"{layout.CHECKPOINTS}/{attempt}")
            left += [f"{layout.CHECKPOINTS}/{attempt}/{name}" for name in names if not _is_sealed(name, names)]
    return left


def _is_sealed(name: str, names: Collection[str]) -> bool:
    """Whether a folder has its seal beside it, or is none but a seal."""
    return name.endswith(layout.SEALED) or f"{name}{layout.SEALED}" in names


def _has_ended(storage: Storage, attempt: str) -> bool:
    return attempt.isdecimal() and storage.get(layout.outcome(int(attempt))) is not None


def _folder(point: RestorePoint) -> str:
    return f"{layout.CHECKPOINTS}/{seals.step_folder(point)}"
