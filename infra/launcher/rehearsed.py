"""Which drills does the launcher carry out itself? Stockouts, for the rest of a round, and its own end.

Level-triggered, by the notes of the drills: a driver that is killed in between reads them again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.drills import Drill, DrillKind, Moment, parse_drill
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.rehearsal import Note, read_note, take_note
from prefect_tpu.infra.state import Offer
from prefect_tpu.infra.storage import LocalStorage


def refused(storage: LocalStorage, job: SliceJob) -> Mapping[Offer, str]:
    """What a stockout has made impossible for the rest of this round, and why."""
    notes = ((index, read_note(storage, index)) for index, _ in _of_kind(job, DrillKind.STOCKOUT))
    return {
        Offer(accelerator=note.accelerator): f"drill {note.drill}: no capacity."
        for index, note in notes
        if note is not None and not _is_obeyed(storage, index)
    }


def strike_stockout(storage: LocalStorage, job: SliceJob, attempt: int, offer: Offer) -> bool:
    """Whether a drill takes this offer away just before the attempt begins on it."""
    due = [
        (index, drill)
        for index, drill in _of_kind(job, DrillKind.STOCKOUT)
        if drill.is_the_launchers and drill.is_due(Moment.START, None, attempt)
    ]
    notes = ((index, Note(drill=drill, attempt=attempt, accelerator=offer.accelerator)) for index, drill in due)
    return any(take_note(storage, index, note) for index, note in notes)


def end_stockouts(storage: LocalStorage, job: SliceJob) -> None:
    """The round is over: in the next one what they took is to be had again."""
    for index, _ in _of_kind(job, DrillKind.STOCKOUT):
        if read_note(storage, index) is not None:
            _obey(storage, index)


def obey(storage: LocalStorage, job: SliceJob) -> None:
    """End this process where a drill has struck that ends a job's driver."""
    for index, _ in _of_kind(job, DrillKind.ORCHESTRATOR_KILL):
        if not _is_obeyed(storage, index) and read_note(storage, index) is not None and _obey(storage, index):
            os.kill(os.getpid(), signal.SIGKILL)


def _of_kind(job: SliceJob, kind: DrillKind) -> Iterator[tuple[int, Drill]]:
    drills = enumerate(map(parse_drill, job.drills))
    return ((index, drill) for index, drill in drills if drill.kind is kind)


def _is_obeyed(storage: LocalStorage, index: int) -> bool:
    return storage.path(layout.obeyed(index)).exists()


def _obey(storage: LocalStorage, index: int) -> bool:
    return storage.put_if_absent(layout.obeyed(index), contract.write_json({}))
