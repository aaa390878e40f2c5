"""Random sequences of drills: each job ends exactly as the drills and its program foretell.

`make test-drills SEEDS=200` tries more; `make test-drills SEEDS=17 FIRST=17` is the one of a failure again.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from prefect_tpu.infra.drills import Drill, DrillKind, Moment

pytestmark = [pytest.mark.slices, pytest.mark.drills]

SEEDS = int(os.environ.get("DRILL_SEEDS", "20"))
FIRST = int(os.environ.get("DRILL_FIRST", "1"))
ON_MORE_HOSTS = 4  # sequences on a v6e-16
AT_ONCE = 6
STEPS, EVERY = 12, 3
SECONDS = 0.12  # of a step: longer than between two written reports, so that each is written
SETTINGS = {"grace": 2.0, "stall_timeout": 4.0, "max_preemptions": 10}
SMALL, LARGE = ("cpu-2x1", "cpu-2x2"), ("v6e-16", "v5e-16")
HOSTS = {SMALL: 2, LARGE: 4}

Attempt = tuple[str, int | None, str]  # outcome, host, accelerator
ENDS = {
    DrillKind.PREEMPT: "preempted",
    DrillKind.STOCKOUT: "preempted",
    DrillKind.KILL: "host_lost",
    DrillKind.FAIL: "program_error",
    DrillKind.HANG: "stalled",
    DrillKind.OOM: "out_of_memory",
}
SAVES_FIRST = (DrillKind.PREEMPT, DrillKind.STOCKOUT)
ERRORS = ("program_error", "out_of_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """What a seed stands for."""

    seed: int
    drills: tuple[Drill, ...]
    accelerators: tuple[str, ...]
    max_failures: int

    @property
    def name(self) -> str:
        return f"{'large' if self.accelerators == LARGE else 'small'}-{self.seed}"

    def __str__(self) -> str:
        drills = " ".join(f"--drill {drill}" for drill in self.drills)
        return f"seed {self.seed} on {', '.join(self.accelerators)}, max_failures {self.max_failures}: {drills}"


# -- what must come out, from the drills alone ------------------------------------------------------


class Tie(Exception):
    """Two drills strike at once: which of them ends the attempt is nobody's to foretell."""


@dataclass(slots=True)
class Foresight:
    """A job in mind: struck drills, the step that is saved, offers that are gone, and how its attempts ended."""

    sequence: Sequence
    struck: set[int] = field(default_factory=set)
    saved: int = -1
    gone: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    deaths: int = 0
    failure: tuple[str, int | None] | None = None

    def play(self) -> Foresight:
        while self._provision() and not self._has_ended_with(self._run()):
            pass
        return self

    @property
    def number(self) -> int:
        return len(self.attempts) + 1

    @property
    def offers(self) -> list[str]:
        return [name for name in self.sequence.accelerators if name not in self.gone]

    def _provision(self) -> bool:
        for index, drill in enumerate(self.sequence.drills):
            if self.offers and is_launchers(drill) and self._may_strike(index):
                self.struck.add(index)
                self.gone.append(self.offers[0])
        if not self.offers:
            self.failure = ("no_capacity", None)
        return bool(self.offers)

    def _run(self) -> Drill | None:
        """The drill that ends the attempt; None where it ends well."""
        if (drill := self._meet(Moment.START, 0)) is not None:
            return drill
        saves = 0
        for step in range(self.saved + 1, STEPS):
            if (drill := self._meet(Moment.STEP, step)) is not None:
                self.saved = step if drill.kind in SAVES_FIRST else self.saved
                return drill
            if (step + 1) % EVERY == 0:
                saves += 1
                drill = self._meet(Moment.SAVE, saves)
                self.saved = step if drill is None or drill.kind in SAVES_FIRST else self.saved
                if drill is not None:
                    return drill
        return None

    def _meet(self, moment: Moment, number: int) -> Drill | None:
        """What strikes now, where that ends the attempt."""
        due = [
            index
            for index, drill in enumerate(self.sequence.drills)
            if not is_launchers(drill) and drill.moment is moment and self._may_strike(index)
            if moment is Moment.START
            or (drill.number or 0) == number
            or (moment is Moment.STEP and (drill.number or 0) < number)
        ]
        if len(due) > 1:
            raise Tie
        self.struck.update(due)
        drill = self.sequence.drills[due[0]] if due else None
        self.deaths += drill is not None and drill.kind is DrillKind.ORCHESTRATOR_KILL
        return drill if drill is not None and drill.kind in ENDS else None

    def _may_strike(self, index: int) -> bool:
        return index not in self.struck and self.sequence.drills[index].attempt in (None, self.number)

    def _has_ended_with(self, drill: Drill | None) -> bool:
        """Write the attempt down; whether the job ends with it."""
        accelerator = self.offers[0]
        if drill is None:
            self.attempts.append(("succeeded", None, accelerator))
            return True
        outcome = ENDS[drill.kind]
        self.attempts.append((outcome, drill.host, accelerator))
        if drill.kind is DrillKind.STOCKOUT:
            self.gone.append(accelerator)
        errors = sum(attempt[0] in ERRORS for attempt in self.attempts)
        if outcome in ERRORS and errors > self.sequence.max_failures:
            self.failure = (outcome, drill.host)
        return self.failure is not None


def is_launchers(drill: Drill) -> bool:
    return drill.kind is DrillKind.STOCKOUT and drill.moment is Moment.START


def total() -> int:
    """What the undisturbed program returns."""
    number = 1
    for step in range(STEPS):
        number = (number * 31 + step * step + 7) % (2**31 - 1)
    return number


# -- sequences --------------------------------------------------------------------------------------


def draw(seed: int, accelerators: tuple[str, ...]) -> Sequence:
    """The sequence of a seed. One in which two drills strike at once is drawn again."""
    chance = random.Random(f"{seed} {accelerators}")
    while True:
        drills = tuple(draw_drill(chance, HOSTS[accelerators]) for _ in range(3))
        sequence = Sequence(seed=seed, drills=drills, accelerators=accelerators, max_failures=chance.choice([0, 2]))
        try:
            Foresight(sequence).play()
        except Tie:
            continue
        return sequence


def draw_drill(chance: random.Random, hosts: int) -> Drill:
    moment = chance.choice([Moment.START, Moment.STEP, Moment.STEP, Moment.SAVE])
    number = {Moment.START: None, Moment.STEP: chance.randrange(STEPS + 1), Moment.SAVE: chance.randrange(1, 5)}
    return Drill(
        kind=chance.choice(list(DrillKind)),
        moment=moment,
        number=number[moment],
        attempt=chance.choice([None, None, None, None, 1, 2]),
        host=chance.randrange(hosts),
    )


def sequences() -> list[Sequence]:
    small = [draw(seed, SMALL) for seed in range(FIRST, SEEDS + 1)]
    return small + [draw(seed, LARGE) for seed in range(FIRST, min(SEEDS, FIRST + ON_MORE_HOSTS - 1) + 1)]


# -- and what came out ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ends(
    new_machine: Callable[[], Any], play_on: Callable[..., Any], left_on: Callable[..., Any]
) -> Iterator[dict[str, Any]]:
    """How each sequence ended, by its name, and what all of them left."""

    def play(sequence: Sequence) -> tuple[str, Any]:
        settings = {**SETTINGS, "max_failures": sequence.max_failures, "drills": tuple(map(str, sequence.drills))}
        request = {
            "name": sequence.name,
            "program": "tests/programs/lockstep.py:main",
            "accelerators": sequence.accelerators,
            "params": {"steps": STEPS, "every": EVERY, "seconds": SECONDS},
            "settings": settings,
        }
        return sequence.name, play_on(machine, request, slices=AT_ONCE)

    with new_machine() as machine, ThreadPoolExecutor(AT_ONCE) as pool:
        ended = dict(pool.map(play, sequences()))
        yield {**ended, "left": left_on(machine, AT_ONCE)}


@pytest.mark.timeout(60 + 30 * SEEDS)
@pytest.mark.parametrize("sequence", sequences(), ids=lambda sequence: sequence.name)
def test_a_job_ends_as_its_drills_foretell(ends: dict[str, Any], sequence: Sequence) -> None:
    end, foreseen = ends[sequence.name], Foresight(sequence).play()
    told = f"{sequence}\nforetold: {foreseen.attempts}, then {foreseen.failure}\n{end}"
    assert end.attempts == foreseen.attempts, told
    assert end.failure == foreseen.failure, told
    assert end.result["state"] == ("succeeded" if foreseen.failure is None else "failed"), told
    assert end.result["value"] == (None if foreseen.failure else {"total": total(), "steps": STEPS}), told
    assert end.deaths == foreseen.deaths, told
    assert end.traces == (), told
    assert len(end.without_effect) == len(sequence.drills) - len(foreseen.struck), told


@pytest.mark.timeout(60 + 30 * SEEDS)
def test_nothing_is_left(ends: dict[str, Any]) -> None:
    assert ends["left"] == {"processes": [], "slices": [], "ports": []}


def test_the_sequences_try_every_kind_of_end() -> None:
    """Of the usual number; a single seed tries what it tries."""
    foreseen = [Foresight(draw(seed, SMALL)).play() for seed in range(1, 21)]
    outcomes = {attempt[0] for job in foreseen for attempt in job.attempts}
    failures = {job.failure and job.failure[0] for job in foreseen}
    assert outcomes == {*ENDS.values(), "succeeded"}
    assert {None, "no_capacity"} < failures
    assert any(job.deaths for job in foreseen)
