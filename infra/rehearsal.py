"""How does a drill strike? Once in a job's life, at a moment of the program, after a note that says so.

The program's own process strikes itself and its runner. A stockout before an attempt and the end of a driver are the
launcher's to carry out; it goes by the same notes.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Event
from prefect_tpu.infra.drills import Drill, DrillFailure, DrillKind, Moment, parse_drill
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.scratch import add_event
from prefect_tpu.infra.storage import Storage, open_on_host

TIMES_SLOWER = 3  # a slow host waits this many times its own step, so that a step takes four times as long
SHORTEST_WAIT, LONGEST_WAIT = 0.05, 5.0  # seconds
STALL_SHARE = 0.25  # of the stall's limit: a slow host is none that stands still
_PLACE = ("cluster", "zone")  # of an offer, where a job has a choice of them
SPARE_BYTES = 1 << 30  # what a program that runs out of memory is given beyond what it has
CHUNK_BYTES = 640 << 20  # the second one is refused; what is left is enough for JAX's threads meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """That a drill has struck: in which attempt and on what; `number` is that of the step or save."""

    drill: Drill
    attempt: int
    accelerator: str
    number: int | None = None
    cluster: str | None = None
    zone: str | None = None

    @property
    def when(self) -> str:
        """The moment it struck, for people."""
        return _when(self.drill.moment, self.number)

    def to_json(self) -> bytes:
        data = {"drill": str(self.drill), "attempt": self.attempt, "accelerator": self.accelerator}
        place = {name: value for name in _PLACE if (value := getattr(self, name)) is not None}
        return contract.write_json(
            data | place | ({} if self.number is None else {self.drill.moment.value: self.number})
        )

    @classmethod
    def from_json(cls, raw: bytes) -> Note:
        data = contract.read_json(raw, "The note of a drill")
        with contract.reading("The note of a drill"):
            drill = parse_drill(data["drill"])
            number = None if drill.number is None else int(data[drill.moment.value])
            of = {"accelerator": data["accelerator"], **{name: data.get(name) for name in _PLACE}}
            return cls(drill=drill, attempt=data["attempt"], number=number, **of)


def take_note(storage: Storage, index: int, note: Note) -> bool:
    """Write the note of the job's drill `index`; False where it has struck before."""
    return storage.put_if_absent(layout.drill(index), note.to_json())


def read_note(storage: Storage, index: int) -> Note | None:
    """The note of the job's drill `index`; None where it has not struck."""
    raw = storage.get(layout.drill(index))
    return None if raw is None else Note.from_json(raw)


class Rehearsal:
    """The drills that may still strike one host of one attempt; outside a job there are none.

    runner, started: its process, and its start by `clock`.
    """

    def __init__(
        self,
        plan: HostPlan | None = None,
        host: int = 0,
        runner: int = 0,
        started: float = 0.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plan, self._runner, self._started = plan, runner, started
        self._clock, self._sleep = clock, sleep
        self._waiting = {} if plan is None else _may_strike(plan, host)
        self._is_slow = any(self._has_struck_here(index) for index in self._waiting if self._is_kind_slow(index))
        self._last_drag: float | None = None

    def strike(self, moment: Moment, number: int | None = None, prepare: Callable[[], None] = lambda: None) -> None:
        """Strike what is due now, after `prepare` and after a create-only note that it has struck."""
        if not self._waiting or self._plan is None:
            return
        attempt = self._plan.attempt
        for index in [i for i, drill in self._waiting.items() if drill.is_due(moment, number, attempt)]:
            drill = self._waiting.pop(index)
            note = Note(
                drill=drill,
                attempt=attempt,
                accelerator=self._plan.accelerator,
                number=number,
                cluster=self._plan.cluster,
                zone=self._plan.zone,
            )
            if take_note(open_on_host(self._plan.output), index, note):
                if moment is not Moment.START or drill.kind is DrillKind.HANG:
                    self._tell(note)
                prepare()
                self._strike(note)

    def drag(self) -> None:
        """Where this host was made slow: wait in proportion to the step it has just done."""
        if not self._is_slow or self._plan is None:
            return
        if self._last_drag is not None:
            longest = min(LONGEST_WAIT, STALL_SHARE * (self._plan.stall_timeout or LONGEST_WAIT / STALL_SHARE))
            own = TIMES_SLOWER * (self._clock() - self._last_drag)
            self._sleep(min(max(own, SHORTEST_WAIT), longest))
        self._last_drag = self._clock()

    def _tell(self, note: Note) -> None:
        """An event, which is also a sign of life: from then on the host is missed when it is silent.

        So a host that hangs at its start gives one, and one that only starts does not: it may take its time.
        """
        assert self._plan is not None, "only a job has drills"
        folder = self._plan.scratch_folder(note.drill.host)
        folder.mkdir(parents=True, exist_ok=True)
        add_event(folder, Event.DRILL, round(self._clock() - self._started, 3), drill=str(note.drill))

    def _strike(self, note: Note) -> None:
        match note.drill.kind:
            case DrillKind.PREEMPT | DrillKind.STOCKOUT:
                os.kill(self._runner, signal.SIGTERM)
            case DrillKind.KILL:
                os.kill(self._runner, signal.SIGKILL)
                os.killpg(0, signal.SIGKILL)  # the program's own group, this process too
            case DrillKind.FAIL:
                raise DrillFailure(_asked_for(note))
            case DrillKind.HANG:
                _stand_still()
            case DrillKind.OOM:
                _run_out_of_memory(note)
            case DrillKind.SLOW:
                self._is_slow, self._last_drag = True, self._clock()
            case DrillKind.ORCHESTRATOR_KILL:
                pass  # its driver reads the note

    def _is_kind_slow(self, index: int) -> bool:
        return self._waiting[index].kind is DrillKind.SLOW

    def _has_struck_here(self, index: int) -> bool:
        """In this attempt, by another rehearsal of this host: before the program, or in another of its processes."""
        assert self._plan is not None, "only a job has drills"
        note = read_note(open_on_host(self._plan.output), index)
        return note is not None and note.attempt == self._plan.attempt


def _may_strike(plan: HostPlan, host: int) -> dict[int, Drill]:
    """By index: this host's drills of this attempt. A stockout at the start strikes before there are hosts."""
    drills = enumerate(map(parse_drill, plan.drills))
    return {
        index: drill
        for index, drill in drills
        if drill.host == host and drill.attempt in (None, plan.attempt) and not drill.is_the_launchers
    }


def _asked_for(note: Note) -> str:
    return f"drill {note.drill} struck {note.when}; this failure was asked for"


def _when(moment: Moment, number: int | None) -> str:
    match moment:
        case Moment.START:
            return "at the start"
        case Moment.STEP:
            return f"at step {number}"
        case Moment.SAVE:
            return f"during save {number}"


def _stand_still() -> NoReturn:
    """For ever, and deaf to every notice."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # JAX's threads hear for the whole process
    while True:
        time.sleep(LONGEST_WAIT)


def _run_out_of_memory(note: Note) -> NoReturn:
    """Ask for memory until there is none, below a limit of this process's own.

    The machine is not in danger: what is had comes as zeros, of which the system keeps none.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        if sys.platform == "linux":
            within = _present_bytes() + SPARE_BYTES
            limit = within if hard == resource.RLIM_INFINITY else min(within, hard)
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        held = [bytes(CHUNK_BYTES) for _ in range(SPARE_BYTES // CHUNK_BYTES + 1)]
        raise MemoryError(f"{_asked_for(note)} ({len(held)} chunks were had)")
    except MemoryError as exc:
        raise MemoryError(_asked_for(note)) from exc
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _present_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
