"""Where do a program's checkpoints lie, and with which one does it start? The job says so, or the leader for all."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from prefect_tpu.infra import layout, seals, start_points
from prefect_tpu.infra.errors import RefusedForGood, UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage, local_folder, open_on_host, open_storage
from prefect_tpu.infra.training import agreement
from prefect_tpu.infra.training.context import Context

logger = logging.getLogger(__name__)
_opened: set[tuple[str, int]] = set()  # (output, attempt): of the blocks that this process has opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """For the checkpoints of one attempt, or of a run outside a job.

    root: of all checkpoints, with a folder for each attempt.
    attempt: the number of this one's own folder; 0 where it has none, because nothing can be written there.
    start: where it goes on from; None where nothing was saved.
    """

    root: Storage
    attempt: int
    start: RestorePoint | None

    def check_writable(self) -> None:
        """Raise `UsageError` where nothing can be saved, on all hosts alike."""
        if self.attempt == 0:
            raise UsageError(
                f"Nothing can be saved in {self.root.url}, which cannot be written: restore from it alone, without"
                " save(), or copy it to a place of your own and give that as directory."
            )


def absolute(directory: str) -> str:
    """Of a folder, now: the program may go to another one before it opens this."""
    return directory if "://" in directory else os.path.abspath(directory)


def in_job(here: Context, call: str) -> Place:
    """Of an attempt of a job, or of a region of a flow. call: what the program wrote."""
    plan = here.plan
    if here.is_flow:
        raise UsageError(
            f"prefect_tpu.{call}() was called in the flow itself, which runs on the leader of {plan.hosts} hosts:"
            " call it in a function that prefect_tpu.every_host(function)(...) runs on each of them."
        )
    if plan.hosts > 1 and agreement.peers() == 1:
        raise UsageError(
            f"Host {here.host} of job {plan.job!r} has not met the other {plan.hosts - 1}:"
            " call prefect_tpu.join() at the start of the program, join('torch') in one of PyTorch."
        )
    if plan.region is not None:
        return _new(open_on_host(plan.output).inside(layout.region_checkpoints(plan.region)))
    if (plan.output, plan.attempt) in _opened:
        raise UsageError(
            f"A second block of checkpoints was opened in job {plan.job!r}: a restart could not tell to which of them a"
            " step belongs. Keep one block around all that trains, or make the next phase a job of its own, with"
            " start_from."
        )
    _opened.add((plan.output, plan.attempt))
    root = open_on_host(plan.output).inside(layout.CHECKPOINTS)
    if (folder := local_folder(root)) is not None:
        (folder / str(plan.attempt)).mkdir(parents=True, exist_ok=True)
    return Place(root=root, attempt=plan.attempt, start=plan.restore)


def start_of(place: str) -> tuple[Storage, RestorePoint]:
    """(folder of another job's checkpoints, which of them). The leader chooses for all."""
    start = start_points.parse(place)
    job = open_on_host(start.folder)
    attempt, step = (start.point.attempt, start.point.step) if start.point is not None else (-1, -1)
    if start.point is None and agreement.is_leader():
        newest = start_points.newest(job)
        attempt, step = (newest.point.attempt, newest.point.step) if newest and newest.point else (-1, -1)
    attempt, step = agreement.from_leader((attempt, step))
    if step < 0:
        raise UsageError(
            f"The job to start from, {place}, has no whole checkpoint: name another one, or start without start_from."
        )
    return start_points.checkpoints_of(job), RestorePoint(attempt=attempt, step=step)


def outside(directory: str) -> Place:
    """Of a program that runs in no job."""
    return _new(open_storage(directory))


def _new(root: Storage) -> Place:
    """As in a job: a new folder for each run, so that none spoils what another wrote. So too for a flow's region."""
    number, attempt, step = 0, -1, -1
    if agreement.is_leader():
        newest = seals.newest_whole(root)
        attempt, step = (newest.attempt, newest.step) if newest is not None else (-1, -1)
        number = _new_folder(root, is_needed=newest is None)
    number, attempt, step = agreement.from_leader((number, attempt, step))
    start = None if step < 0 else RestorePoint(attempt=attempt, step=step)
    return Place(root=root, attempt=number, start=start)


def _new_folder(root: Storage, *, is_needed: bool) -> int:
    """Its number; 0 where none can be made, and somebody who only restores needs none."""
    number = max((int(name) for name in root.children("") if name.isdecimal()), default=0)
    try:
        while True:
            number += 1
            if root.put_if_absent(layout.claim(number), b"{}"):  # else another run began at the same moment
                return number
    except RefusedForGood as exc:
        if is_needed:
            raise
        logger.warning("Checkpoints can be restored here, and none saved. %s", exc)
        return 0
