"""What did ended jobs leave on this machine? Processes that nobody wants any more, and files cut short."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.local_processes import kill_marked, marked_below
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.jobs import job_names
from prefect_tpu.infra.launcher.lease import driver_of
from prefect_tpu.infra.policy.leftovers import Leftover, Limits, why_to_end
from prefect_tpu.infra.storage import LocalStorage, open_storage

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
    """Something that nobody wants any more: an attempt's processes, or a temporary file or folder."""

    what: str
    why: str
    mark: str | None = None
    path: Path | None = None

    def end(self) -> None:
        """End the processes, or delete the files. May be repeated."""
        if self.mark is not None:
            kill_marked(self.mark)
        elif self.path is not None and self.path.is_dir():
            shutil.rmtree(self.path, ignore_errors=True)
        elif self.path is not None:
            self.path.unlink(missing_ok=True)


def find(output: str) -> list[Finding]:
    """Everything below an output that may be ended or deleted, with the reason."""
    root = open_storage(output).root
    now = time.time()
    return [*_processes(root, now), *_files(root, now)]


def _processes(root: Path, now: float) -> Iterator[Finding]:
    for found in marked_below(str(root)):
        folder, _, number = found.mark.rpartition("/")
        if not number.isdecimal():
            continue
        facts = _facts(LocalStorage(folder), int(number), now - found.since, now)
        why = why_to_end(facts) if facts else None
        if why is not None:
            count = len(found.pids)
            what = f"{count} process{'es' if count > 1 else ''} of attempt {number} of job {Path(folder).name!r}"
            yield Finding(what=what, why=why, mark=found.mark)


def _facts(storage: LocalStorage, attempt: int, age: float, now: float) -> Leftover | None:
    """None where the files cannot be read: then nothing is known, and nothing is ended."""
    try:
        has_plan = storage.get(layout.plan(attempt)) is not None
        plan = history.read_plan(storage, attempt) if has_plan else None
        outcome = history.read_outcome(storage, attempt)
        end = history.read_result(storage)
    except PlatformError:
        return None
    return Leftover(
        attempt=attempt,
        newest_attempt=max(history.attempt_numbers(storage), default=attempt),
        limits=Limits(grace=plan.grace, orphan_after=plan.orphan_after, deadline=plan.deadline) if plan else None,
        outcome=outcome.outcome if outcome else None,
        end=end.state if end else None,
        is_driven=driver_of(storage) is not None,
        undriven_for=min(age, now - _renewed(storage)),
        age=age,
    )


def _renewed(storage: LocalStorage) -> float:
    try:
        return storage.path(layout.LEASE).stat().st_mtime
    except OSError:
        return 0.0


def _files(root: Path, now: float) -> Iterator[Finding]:
    """What writes that were cut short left beside their targets, once nobody can be writing it any more."""
    places = [f"{layout.DATA_FOLDER}/", *(f"{job}/{place}" for job in job_names(str(root)) for place in _WRITTEN_IN)]
    for path in (path for place in places for path in sorted(root.glob(f"{place}{layout.TEMPORARY}*"))):
        age = now - _touched(path)
        if age > STALE_SECONDS:
            yield Finding(what=str(path), why=f"a write that was cut short {age / 3600:.0f} h ago", path=path)


def _touched(path: Path) -> float:
    """When anything of it was written last; now, where it is gone since."""
    try:
        return max(part.stat().st_mtime for part in (path, *path.rglob("*")))
    except OSError:
        return time.time()
