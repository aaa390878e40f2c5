"""A program without JAX whose hosts go step by step together, save together and leave together, as those of a slice.

Nothing in it is left to chance: a host that a drill has given notice waits until it hears it, so that whoever knows
the drills knows at which step every attempt ends and what it has saved.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counter import living

import prefect_tpu as tpu
from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.drills import Drill, DrillKind, Moment, parse_drill
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.rehearsal import Note, read_note
from prefect_tpu.infra.scratch import read_progress
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.training.context import Context, context
from prefect_tpu.infra.training.progress import progress
from prefect_tpu.infra.training.report import reports

FOLDER = "lockstep"  # in the job's folder
FILE = "count.json"  # in a checkpoint
NOTICES = (DrillKind.PREEMPT, DrillKind.STOCKOUT)
LOOK_SECONDS = 0.005
PRIME = 2**31 - 1


def main(steps: int = 12, every: int = 3, seconds: float = 0.0) -> dict[str, Any]:
    """A number that tells a step that was left out, done twice or done out of turn; saved after each `every` steps."""
    here = context()
    assert here is not None, "this program runs in a job only"
    _hear_of(here, told=None)
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
    folder = tpu.info().output / FOLDER
    folder.mkdir(exist_ok=True)
    with living(folder, tpu.info()):
        return {"total": _train(Together(here, folder, told), steps, every, seconds), "steps": steps}


def _train(hosts: Together, steps: int, every: int, seconds: float) -> int:
    begin, total = _read(hosts.here.plan)
    hosts.must_leave()  # nobody gives a sign of life before all are there
    progress().event(Event.JOINED)
    for step in range(begin, steps):
        time.sleep(seconds)
        total = (total * 31 + step * step + 7) % PRIME
        is_due = (step + 1) % every == 0 or step + 1 == steps
        if hosts.has_another_reported_first(step, is_save_due=is_due):
            time.sleep(seconds)
        tpu.report(step, total=total)
        if hosts.must_leave():
            hosts.save(step, total, is_rehearsed=False)
            raise tpu.Preempted(step)
        if is_due and hosts.save(step, total, is_rehearsed=True):
            raise tpu.Preempted(step)
    return total


@dataclass(slots=True)
class Together:
    """This host among the others: they meet by files, one for each meeting and host."""

    here: Context
    folder: Path
    told: list[int]
    meetings: int = 0
    saves: int = 0

    def must_leave(self) -> bool:
        """Meet; whether any host was told to leave. All hosts get the same answer."""
        _hear_of(self.here, self.told)
        self.meetings += 1
        place = self.folder / f"{self.here.plan.attempt}-{self.meetings}"
        own = place.with_name(f"{place.name}-{self.here.host}")
        own.with_suffix(".tmp").write_text("leaves" if self.told else "stays")
        os.replace(own.with_suffix(".tmp"), own)
        words = [_wait_for(place.with_name(f"{place.name}-{host}")) for host in range(self.here.plan.hosts)]
        return "leaves" in words

    def has_another_reported_first(self, step: int, *, is_save_due: bool) -> bool:
        """Wait for the report of another host that a drill makes stand still at this step; False where there is none.

        Whoever reports well after it did leaves no doubt who stopped first.
        """
        storage, plan = LocalStorage(self.here.plan.output), self.here.plan
        due = [drill for drill in _hangs(plan) if drill.is_due(Moment.STEP, step, plan.attempt)]
        if is_save_due:
            due += [drill for drill in _hangs(plan) if drill.is_due(Moment.SAVE, self.saves + 1, plan.attempt)]
        if not due or due[0].host == self.here.host:
            return False
        scratch = storage.path(layout.scratch(plan.attempt, due[0].host))
        while (reported := read_progress(scratch).step) is None or reported < step:
            time.sleep(LOOK_SECONDS)
        return True

    def save(self, step: int, total: int, *, is_rehearsed: bool) -> bool:
        """As Orbax does it: all hosts take part, then the leader says that it is whole. Whether to leave."""
        storage, content = LocalStorage(self.here.plan.output), contract.write_json({"total": total})
        attempt = self.here.plan.attempt
        if self.here.is_leader:
            storage.put(f"{layout.checkpoints(attempt)}/{step}/{FILE}", content)
        if is_rehearsed:
            self.saves += 1
            reports().rehearse_save(self.saves)
        leaves = self.must_leave()
        if self.here.is_leader:
            seal = contract.write_json({"files": {FILE: len(content)}})
            storage.put(layout.checkpoint_seal(attempt, step), seal)
        return self.must_leave() or leaves


def _read(plan: HostPlan) -> tuple[int, int]:
    """(the step to begin with, the number so far)"""
    if plan.restore is None:
        return 0, 1
    name = f"{layout.checkpoints(plan.restore.attempt)}/{plan.restore.step}/{FILE}"
    return plan.restore.step + 1, contract.read_json(LocalStorage(plan.output).get(name) or b"", name)["total"]


def _hear_of(here: Context, told: list[int] | None) -> None:
    """Wait for the notice that a drill has sent this host in this attempt; before it is listened for, it is the end."""
    while any(note.drill.kind in NOTICES for note in _notes(here)) and not told:
        time.sleep(LOOK_SECONDS)


def _hangs(plan: HostPlan) -> list[Drill]:
    """Drills that make a host of this attempt stand still, and have not done so in an earlier one."""
    storage, found = LocalStorage(plan.output), []
    for index, drill in enumerate(map(parse_drill, plan.drills)):
        note = read_note(storage, index)
        if drill.kind is DrillKind.HANG and (note is None or note.attempt == plan.attempt):
            found.append(drill)
    return found


def _notes(here: Context) -> Iterator[Note]:
    """Of the drills that have struck this host in this attempt."""
    storage = LocalStorage(here.plan.output)
    for index in range(len(here.plan.drills)):
        note = read_note(storage, index)
        if note is None or note.drill.is_the_launchers:
            continue
        if (note.attempt, note.drill.host) == (here.plan.attempt, here.host):
            yield note


def _wait_for(path: Path) -> str:
    while not path.exists():
        time.sleep(LOOK_SECONDS)
    return path.read_text()
