"""Which model does a job start with that another one has trained? The newest checkpoint of a job, or one by its place.

A place is a job's folder, `<output>/<job>`, or a checkpoint of it, `<output>/<job>/checkpoints/<attempt>/<step>`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prefect_tpu.infra import layout, seals
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import BUCKET, Storage, open_storage

_ONE = re.compile(rf"(?P<folder>.+)/{layout.CHECKPOINTS}/(?P<attempt>\d+)/(?P<step>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPoint:
    """folder: of the job that has the model. point: which checkpoint; None for its newest one."""

    folder: str
    point: RestorePoint | None

    def __str__(self) -> str:
        if self.point is None:
            return self.folder
        return f"{self.folder}/{layout.CHECKPOINTS}/{seals.step_folder(self.point)}"


def parse(place: str) -> StartPoint:
    """What a place names; nothing is looked at."""
    place = place.rstrip("/")
    found = _ONE.fullmatch(place)
    if found is None:
        return StartPoint(folder=place, point=None)
    point = RestorePoint(attempt=int(found["attempt"]), step=int(found["step"]))
    return StartPoint(folder=found["folder"], point=point)


def spelled(place: str, output: str) -> str:
    """The place in one spelling, for a job below `output`; nothing is looked at. "" stays as it is.

    Raises `UsageError` where the hosts of that output could not read it.
    """
    if not place:
        return place
    start = parse(place)
    if start.folder.startswith(BUCKET) != output.startswith(BUCKET):
        raise UsageError(
            f"start_from {place!r} and output {output!r} are not both in a bucket or both on this machine: hosts read"
            " the one where they write to the other. Copy the job there, or name another output."
        )
    return str(StartPoint(folder=open_storage(start.folder).url, point=start.point))


def check(place: str, output: str) -> None:
    """Raise `UsageError` where no job, or no whole checkpoint, lies at a place. output: where its job is looked for."""
    start = parse(place)
    storage = open_storage(start.folder)
    if storage.changed(layout.JOB) is None:
        raise UsageError(f"start_from {place!r} is no job. {_advice(start.folder, output)}")
    if start.point is not None and not seals.is_whole(checkpoints_of(storage), start.point):
        raise UsageError(f"start_from {place!r} is no whole checkpoint: name another one, or the job for its newest.")


def _advice(folder: str, output: str) -> str:
    """Whoever gave a job's bare name meant the one of that name in this output, and got a folder of this machine."""
    name, jobs = folder.rpartition("/")[2], open_storage(output)
    if layout.JOB_NAME.fullmatch(name) and jobs.changed(f"{name}/{layout.JOB}") is not None:
        return (
            f"The job {name!r} lies at {jobs.where(name)}: give that, or a checkpoint of it, of which `prefect-tpu"
            f" checkpoints {name}` lists the places."
        )
    return (
        f"Give a job's folder, such as {jobs.where('NAME')}, or a checkpoint of it, {jobs.where('NAME')}"
        f"/{layout.CHECKPOINTS}/ATTEMPT/STEP: `prefect-tpu list` names the jobs, and `prefect-tpu checkpoints NAME`"
        " lists the places of one."
    )


def is_usable(place: str, *, reads: bool = True) -> bool:
    """Whether a job, or a whole checkpoint, lies at a place. reads: all of it is read to know, else it is looked at.

    Raises `PlatformError` where the storage cannot be read: what cannot be seen now is not gone.
    """
    start = parse(place)
    storage = open_storage(start.folder)
    if storage.changed(layout.JOB) is None:
        return False
    return start.point is None or seals.lasting_flaw(checkpoints_of(storage), start.point, reads=reads) is None


def checkpoints_of(job: Storage) -> Storage:
    """Where the checkpoints of a job lie."""
    return job.inside(layout.CHECKPOINTS)


def newest(job: Storage) -> StartPoint | None:
    """The newest whole checkpoint of a job, by its place; None where it has none. It is read to know."""
    point = seals.newest_whole(checkpoints_of(job))
    return None if point is None else StartPoint(folder=job.url, point=point)
