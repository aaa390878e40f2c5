"""What must come of a job under drills? Foretold from the drills and its program alone: a job in mind, step by step.

Nothing of the product takes part but the words in which a drill is written down.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prefect_tpu.infra.drills import Drill, DrillKind, Moment

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"

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
class Arena:
    """On what a sequence is played: a program of `steps` steps that saves after each `every`.

    moments: (moment, numbers) that a drill may have.
    """

    name: str
    accelerators: tuple[str, ...]
    hosts: int
    program: str
    steps: int
    every: int
    params: dict[str, Any]
    moments: tuple[tuple[Moment, tuple[int, ...]], ...]
    settings: dict[str, Any]
    data: dict[str, str] = field(default_factory=dict)


START: tuple[Moment, tuple[int, ...]] = (Moment.START, ())
ANY_STEP, ANY_SAVE = (Moment.STEP, tuple(range(13))), (Moment.SAVE, (1, 2, 3, 4))
SMALL = Arena(
    name="small",
    accelerators=("cpu-2x1", "cpu-2x2"),
    hosts=2,
    program=f"{ROOT / 'tests' / 'programs' / 'lockstep.py'}:main",
    steps=12,
    every=3,
    # A step is longer than the time between two written reports, so that each is written.
    params={"steps": 12, "every": 3, "seconds": 0.12},
    moments=(START, ANY_STEP, ANY_STEP, ANY_SAVE),
    settings={"grace": 2.0, "stall_timeout": 6.0},
)
LARGE = replace(SMALL, name="large", accelerators=("v6e-16", "v5e-16"), hosts=4)
# JAX and Orbax save by the clock, and a notice takes some steps: what is foretold does not depend on either here.
REAL = replace(
    SMALL,
    name="real",
    program=f"{EXAMPLES / 'digits.py'}:main",
    steps=36,
    every=1,
    params={"steps": 36, "step_seconds": 0.1},
    moments=(START, (Moment.STEP, (4, 14, 24))),
    settings={"grace": 5.0, "stall_timeout": 20.0, "checkpoint_every": 0.5},
    data={"digits": str(EXAMPLES / "data" / "digits.csv.gz")},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """What a seed stands for; of seed 0, nothing but the program."""

    seed: int
    arena: Arena
    drills: tuple[Drill, ...] = ()
    max_failures: int = 0

    @property
    def name(self) -> str:
        return f"{self.arena.name}-{self.seed}"

    def __str__(self) -> str:
        drills = " ".join(f"--drill {drill}" for drill in self.drills)
        return (
            f"{self.name} on {', '.join(self.arena.accelerators)}, max_failures {self.max_failures}: {drills}\n"
            f"again: make test-drills FIRST={self.seed} SEEDS={self.seed} ONLY={self.name}"
        )


class Tie(Exception):
    """Two drills strike at once."""


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
        return [name for name in self.sequence.arena.accelerators if name not in self.gone]

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
        for step in range(self.saved + 1, self.sequence.arena.steps):
            if (drill := self._meet(Moment.STEP, step)) is not None:
                self.saved = step if drill.kind in SAVES_FIRST else self.saved
                return drill
            if (step + 1) % self.sequence.arena.every == 0:
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
            if drill.moment is moment and not is_launchers(drill) and self._may_strike(index)
            if (drill.number or 0) == number or (moment is Moment.STEP and (drill.number or 0) < number)
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
    for step in range(SMALL.steps):
        number = (number * 31 + step * step + 7) % (2**31 - 1)
    return number


UNDISTURBED = Sequence(seed=0, arena=REAL)


def draw(seed: int, arena: Arena) -> Sequence:
    """The sequence of a seed. One in which two drills strike at once is drawn again."""
    chance = random.Random(f"{seed} {arena.name}")
    while True:
        drills = tuple(draw_drill(chance, arena) for _ in range(3))
        sequence = Sequence(seed=seed, arena=arena, drills=drills, max_failures=chance.choice([0, 2]))
        with suppress(Tie):
            Foresight(sequence).play()
            return sequence


def draw_drill(chance: random.Random, arena: Arena) -> Drill:
    moment, numbers = chance.choice(arena.moments)
    return Drill(
        kind=chance.choice(list(DrillKind)),
        moment=moment,
        number=chance.choice(numbers) if numbers else None,
        attempt=chance.choice([None, None, None, None, 1, 2]),
        host=chance.randrange(arena.hosts),
    )
