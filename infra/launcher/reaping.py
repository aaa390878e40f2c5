"""What did ended jobs leave? What runs that nobody wants any more, and files cut short."""

from __future__ import annotations

import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.backends.base import Place, Remnant
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.jobs import job_names
from prefect_tpu.infra.launcher.lease import driver_of, renewed_at
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.leftovers import UNDRIVEN_SECONDS, Leftover, Limits, why_to_end
from prefect_tpu.infra.storage import Storage, local_folder, open_storage

STALE_SECONDS = 3_600.0  # a write takes seconds; copying much data touches its folder all the time
# Where this package writes, seen from a job's folder. All else below it is the program's, whatever it is called.
_WRITTEN_IN = (
    "",
    "payload/",
    "payload/*/",
    f"{layout.ATTEMPTS}/*/",
    f"{layout.ATTEMPTS}/*/hosts/*/",
    f"{layout.CHECKPOINTS}/*/",
    f"{layout.LEDGER}/",
    f"{layout.ROUNDS}/",
    f"{layout.DRILLS}/",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that nobody wants any more; `end` ends or deletes it, and may be repeated."""

    what: str
    why: str
    end: Callable[[], Awaitable[None]]


async def find(output: str, places: Sequence[Place] = ()) -> list[Finding]:
    """Everything of the jobs in an output that may be ended or deleted, with the reason.

    places: clusters to look in too, which no job in the output tells of any more.
    """
    storage, now = open_storage(output), time.time()
    jobs = _by_backend(storage)
    if places:
        jobs.setdefault("jobset", [])
    judged = [
        finding
        for name, of_backend in jobs.items()
        for finding in await _attempts(name, of_backend, output, places if name == "jobset" else ())
    ]
    found = list({finding.what: finding for finding in judged}.values())  # two backends may look in one cluster
    folder = local_folder(storage)
    return found if folder is None else [*found, *_files(folder, now)]


def _by_backend(storage: Storage) -> dict[str, list[SliceJob]]:
    """Backend → its jobs; on this machine there may be processes of jobs whose folders are gone."""
    found: dict[str, list[SliceJob]] = {} if local_folder(storage) is None else {"local": []}
    for name in job_names(storage.url):
        try:
            job = history.read_job(storage.inside(name))
        except PlatformError:
            continue  # of what cannot be read nothing is known
        if job is not None:
            found.setdefault(job.backend, []).append(job)
    return found


async def _attempts(name: str, jobs: list[SliceJob], output: str, places: Sequence[Place]) -> list[Finding]:
    """What is left of attempts on one backend, and is not wanted."""
    backend, found = open_backend(name), []
    for remnant in await backend.remnants(output, jobs, places):
        facts = _of_elsewhere(remnant) if remnant.output is None else _facts(open_storage(remnant.output), remnant)
        why = why_to_end(facts) if facts else None
        if why is not None:
            job = remnant.job or (remnant.output or "").rstrip("/").rpartition("/")[2]
            what = f"{remnant.what} of attempt {remnant.attempt} of job {job!r}"
            found.append(Finding(what=what, why=why, end=partial(backend.forget, remnant.handle)))
    return found


def _of_elsewhere(remnant: Remnant) -> Leftover | None:
    """Of a job below another output: nothing is known of it but its deadline."""
    if remnant.overdue is None:
        return None
    return Leftover(
        attempt=remnant.attempt,
        newest_attempt=remnant.attempt,
        limits=None,
        outcome=None,
        end=None,
        is_driven=False,
        undriven_for=0.0,
        age=remnant.age,
        overdue=remnant.overdue,
    )


def _facts(storage: Storage, remnant: Remnant) -> Leftover | None:
    """None where the files cannot be read: then nothing is known, and nothing is ended."""
    try:
        has_job = history.is_there(storage)
        plan = history.find_plan(storage, remnant.attempt)
        outcome = history.read_outcome(storage, remnant.attempt)
        end = history.read_result(storage)
        numbers = history.attempt_numbers(storage)
        silent = time.time() - (renewed_at(storage) or 0.0)
        # Of a driver that was killed on another machine the lease stays: it counts as long as it is renewed.
        is_driven = driver_of(storage) is not None and silent <= UNDRIVEN_SECONDS
    except PlatformError:
        return None
    return Leftover(
        attempt=remnant.attempt,
        newest_attempt=max(numbers, default=remnant.attempt),
        limits=_limits(plan, remnant) if plan else None,
        outcome=outcome.outcome if outcome else None,
        end=end.state if end else None,
        is_driven=is_driven,
        undriven_for=min(remnant.age, silent),
        age=remnant.age,
        has_job=has_job,
        comes_first=remnant.comes_first,
        overdue=remnant.overdue,
        is_over=remnant.is_over,
    )


def _limits(plan: HostPlan, remnant: Remnant) -> Limits:
    """The deadline is of the attempt, and what was there before the attempt began is older."""
    deadline = None if remnant.comes_first else plan.deadline
    return Limits(grace=plan.grace, orphan_after=plan.orphan_after, deadline=deadline)


def _files(root: Path, now: float) -> Iterator[Finding]:
    """What writes that were cut short left beside their targets, once nobody can be writing it any more."""
    places = [f"{layout.DATA_FOLDER}/", *(f"{job}/{place}" for job in job_names(str(root)) for place in _WRITTEN_IN)]
    for path in (path for place in places for path in sorted(root.glob(f"{place}{layout.TEMPORARY}*"))):
        age = now - _touched(path)
        if age > STALE_SECONDS:
            why = f"a write that was cut short {age / 3600:.0f} h ago"
            yield Finding(what=str(path), why=why, end=partial(_delete, path))


async def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _touched(path: Path) -> float:
    """When anything of it was written last; now, where it is gone since."""
    try:
        return max(part.stat().st_mtime for part in (path, *path.rglob("*")))
    except OSError:
        return time.time()
