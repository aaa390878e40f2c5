"""What is written down about a job that decides what comes next? Seen at once, in a few requests.

A bucket takes its time for each answer and counts them. So what never changes is read once, and what may have changed
is seen by listing the folders that hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.rehearsal import Note, read_note
from prefect_tpu.infra.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One look at a job's folder.

    is_there: the job is; not once somebody has deleted its folder, or moved it away.
    is_waiting: its driver has written down what it waits for.
    has_permit: its driver has noted which chips it may have.
    numbers: of all attempts ever, lowest first.
    newest: the plan of the last of them; None before the first.
    outcomes: of those that have ended, by number.
    first_of_round: the number that this round's first attempt has or will have.
    notes: of the drills that have struck, by index; obeyed: of those of the launcher's that have had their effect.
    """

    is_there: bool
    is_stop_asked: bool
    has_result: bool
    is_waiting: bool
    has_permit: bool
    numbers: tuple[int, ...]
    newest: HostPlan | None
    outcomes: Mapping[int, AttemptSummary]
    first_of_round: int
    notes: Mapping[int, Note] = field(default_factory=dict)
    obeyed: frozenset[int] = frozenset()

    @property
    def last_number(self) -> int:
        """Of any attempt ever; 0 before the first."""
        return self.numbers[-1] if self.numbers else 0

    @property
    def all_ended(self) -> tuple[AttemptSummary, ...]:
        """Every attempt that has an outcome, oldest first."""
        return tuple(self.outcomes[number] for number in sorted(self.outcomes))

    @property
    def ended(self) -> tuple[AttemptSummary, ...]:
        """This round's attempts that have an outcome, oldest first."""
        return tuple(attempt for attempt in self.all_ended if attempt.number >= self.first_of_round)

    @property
    def live(self) -> HostPlan | None:
        """Of the attempt that has a plan and no outcome."""
        return None if self.last_number in self.outcomes else self.newest


class Reader:
    """Looks at one job's folder, and keeps what can never change. Not shared between threads that look at once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._plans: dict[int, HostPlan] = {}
        self._outcomes: dict[int, AttemptSummary] = {}
        self._notes: dict[int, Note] = {}

    def look(self) -> Written:
        """What is there now: two listings, one more for each of rounds and drills that there are, and the news."""
        top = set(self._storage.children(""))
        numbers = self._read_attempts(top)
        drills = self._storage.children(layout.DRILLS) if layout.DRILLS in top else []
        obeyed = frozenset(layout.numbered(drills, ".obeyed.json"))
        self._read_notes(set(layout.numbered(drills, ".json")))
        rounds = self._storage.children(layout.ROUNDS) if layout.ROUNDS in top else []
        return Written(
            is_there=layout.JOB in top,
            is_stop_asked=layout.STOP in top,
            has_result=layout.RESULT in top,
            is_waiting=layout.WAITING in top,
            has_permit=layout.PERMIT in top,
            numbers=tuple(numbers),
            newest=self._plans[numbers[-1]] if numbers else None,
            outcomes=dict(self._outcomes),
            first_of_round=history.after_rounds(rounds),
            notes=dict(self._notes),
            obeyed=obeyed,
        )

    def _read_attempts(self, top: set[str]) -> list[int]:
        """The numbers; one whose plan was cut short is no attempt yet, and can only be the last."""
        names = self._storage.children(layout.ATTEMPTS) if layout.ATTEMPTS in top else []
        numbers = layout.numbered(names)
        _forget_all_but(set(numbers), self._plans, self._outcomes)
        while numbers and not self._has_plan(numbers[-1]):
            numbers.pop()
        for number in sorted(set(numbers) - set(self._outcomes)):
            if (outcome := history.read_outcome(self._storage, number)) is not None:
                self._outcomes[number] = outcome
        return numbers

    def _has_plan(self, number: int) -> bool:
        if number not in self._plans and (plan := history.find_plan(self._storage, number)) is not None:
            self._plans[number] = plan
        return number in self._plans

    def _read_notes(self, struck: set[int]) -> None:
        _forget_all_but(struck, self._notes)
        for index in sorted(struck - set(self._notes)):
            if (note := read_note(self._storage, index)) is not None:
                self._notes[index] = note


def _forget_all_but(numbers: Set[int], *kept: dict[int, Any]) -> None:
    """What is no longer there was deleted by hand, or by a new round; it may be written anew."""
    for known in kept:
        for number in set(known) - numbers:
            del known[number]
