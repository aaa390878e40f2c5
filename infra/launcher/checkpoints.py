"""Which checkpoints of a job are whole, and which may go?

A checkpoint counts only when it is sealed: after its last byte the leader
writes the list of its files with their sizes and check sums.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from prefect_tpu.infra import layout, retention, seals
from prefect_tpu.infra.plan import HostPlan, RestorePoint
from prefect_tpu.infra.storage import Storage

log = logging.getLogger(__name__)
_SAID = ("side", "metrics", "mesh", "devices", "hosts", "versions")  # what a seal says for people
KEPT = retention.KEPT  # of the newest, where the program does not say


def sealed(storage: Storage) -> list[RestorePoint]:
    """Sealed checkpoints, newest first: a later step counts more, then a later attempt."""
    return seals.newest_first(storage.inside(layout.CHECKPOINTS))


def saved_step(storage: Storage, attempt: int) -> int | None:
    """The furthest step that an attempt sealed; None where it sealed none."""
    return max((point.step for point in sealed(storage) if point.attempt == attempt), default=None)


def furthest(storage: Storage, plan: HostPlan) -> int | None:
    """The furthest step that an ended attempt sealed; of a flow, all that its regions have saved, as one number.

    That one is larger only where something newer was saved, whichever region did: no two count their steps alike.
    """
    if plan.program.kind != "flow":
        return saved_step(storage, plan.attempt)
    steps = [max(point.step for point in points) for root in _regions(storage) if (points := seals.newest_first(root))]
    return sum(steps) + len(steps) - 1 if steps else None


def _regions(storage: Storage) -> list[Storage]:
    """The checkpoints of each region of a flow."""
    return [storage.inside(layout.region_checkpoints(name)) for name in storage.children(layout.REGIONS)]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A whole checkpoint and what its seal says of it.

    place: its path or URL; of a job's, as `start_from` takes it.
    bytes: of all its files.
    said: the rest of the seal: `side`, `metrics`, `mesh`, `devices`, `hosts`, `versions`, as far as they were said.
    """

    point: RestorePoint
    place: str
    bytes: int
    said: dict[str, Any]

    @property
    def metrics(self) -> dict[str, float]:
        """That its step was saved with."""
        return retention.metrics_of(self.said)

    def to_json(self) -> dict[str, Any]:
        return {**self.said, **asdict(self.point), "place": self.place, "bytes": self.bytes}


def told(root: Storage) -> list[Told]:
    """Those below `root`, of a job or of a program outside one, that are whole by a look, newest first."""
    found = []
    for point in seals.newest_first(root):
        if (sealed := seals.said(root, point)) is not None:
            said = {name: sealed[name] for name in _SAID if name in sealed}
            size = sum(sealed["files"].values())
            found.append(Told(point=point, place=root.where(seals.step_folder(point)), bytes=size, said=said))
    return found


def is_whole(storage: Storage, point: RestorePoint) -> bool:
    """Whether every file of its seal is there in its size."""
    return seals.is_whole(storage.inside(layout.CHECKPOINTS), point)


def prune(storage: Storage, *, in_use: RestorePoint | None) -> list[RestorePoint]:
    """Delete what the program's rule does not keep, by a look; never the newest one, never the one in use.

    What an ended attempt left without a seal goes too: nobody will finish it.
    """
    root = storage.inside(layout.CHECKPOINTS)
    return retention.prune(root, in_use, lambda: [name for name in root.children("") if _has_ended(storage, name)])


def prune_regions(storage: Storage) -> None:
    """The same for each region of a flow, which writes where it ran last."""
    for root in _regions(storage):
        retention.prune(root, None, partial(retention.but_the_newest, root))


def _has_ended(storage: Storage, attempt: str) -> bool:
    return attempt.isdecimal() and storage.get(layout.outcome(int(attempt))) is not None


def _folder(point: RestorePoint) -> str:
    return f"{layout.CHECKPOINTS}/{seals.step_folder(point)}"
