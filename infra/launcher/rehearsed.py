"""Which drills does the launcher carry out itself? Stockouts, for the rest of a round, and its own end.

Level-triggered, by the notes of the drills: a driver that is killed in between reads them again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.drills import Drill, DrillKind, Moment, parse_drill
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.policy.offers import offer_of
from prefect_tpu.infra.rehearsal import Note, read_note, take_note
from prefect_tpu.infra.state import Offer
from prefect_tpu.infra.storage import Storage


def refused(job: SliceJob, notes: Mapping[int, Note], obeyed: Set[int]) -> Mapping[Offer, str]:
    """What a stockout has made impossible for the rest of this round, and why."""
    struck = [(index, notes[index]) for index, _ in _of_kind(job, DrillKind.STOCKOUT) if index in notes]
    return {offer_of(note): _reason(note.drill) for index, note in struck if index not in obeyed}


def strike_stockout(storage: Storage, job: SliceJob, attempt: int, offer: Offer) -> str | None:
    """Why this offer is gone, where a drill takes it away just before the attempt begins on it."""
    for index, drill in _of_kind(job, DrillKind.STOCKOUT):
        if drill.is_the_launchers and drill.is_due(Moment.START, None, attempt):
            note = Note(drill=drill, attempt=attempt, **asdict(offer))
            if take_note(storage, index, note):
                return _reason(drill)
    return None


def end_stockouts(storage: Storage, job: SliceJob) -> None:
    """The round is over: in the next one what they took is to be had again."""
    for index, _ in _of_kind(job, DrillKind.STOCKOUT):
        if read_note(storage, index) is not None:
            _obey(storage, index)


def obey(storage: Storage, job: SliceJob, struck: Set[int], obeyed: Set[int]) -> None:
    """End this process where a drill has struck that ends a job's driver."""
    for index, _ in _of_kind(job, DrillKind.ORCHESTRATOR_KILL):
        if index in struck and index not in obeyed and _obey(storage, index):
            os.kill(os.getpid(), signal.SIGKILL)


def _of_kind(job: SliceJob, kind: DrillKind) -> Iterator[tuple[int, Drill]]:
    drills = enumerate(map(parse_drill, job.drills))
    return ((index, drill) for index, drill in drills if drill.kind is kind)


def _reason(drill: Drill) -> str:
    return f"drill {drill}: no capacity."


def _obey(storage: Storage, index: int) -> bool:
    return storage.put_if_absent(layout.obeyed(index), contract.write_json({}))
