"""What is a figure of the bench? Seconds of ours ÷ seconds of the other side, measured in turn: A B A B.

So a change of the machine's speed meets both. The median ratio counts; the spread says how noisy it was.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One side that is compared: `seconds` measures it once.

    what: names the figure. how: says what is done, for the page.
    goal: of the median ratio at most. goal_seconds: of the median seconds at most.
    """

    what: str
    how: str
    seconds: Callable[[], float]
    goal: float | None = None
    goal_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Some contenders against the same other side.

    warm_up: measure each once before, and forget it: what is read from disk for the first time counts for nobody.
    """

    against: str
    other: Callable[[], float]
    contenders: tuple[Contender, ...]
    warm_up: bool = True

    def carry_out(self, repetitions: int) -> list[Figure]:
        sides = [*(contender.seconds for contender in self.contenders), self.other]
        if self.warm_up:
            _round(sides)
        *ours, other = zip(*(_round(sides) for _ in range(repetitions)), strict=True)
        return [
            Figure(contender=contender, against=self.against, ours=seconds, other=other)
            for contender, seconds in zip(self.contenders, ours, strict=True)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What was measured of one contender: both sides' seconds, pair by pair."""

    contender: Contender
    against: str
    ours: Sequence[float]
    other: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        return [ours / other for ours, other in zip(self.ours, self.other, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def seconds(self) -> float:
        return statistics.median(self.ours)

    @property
    def other_seconds(self) -> float:
        return statistics.median(self.other)

    @property
    def is_met(self) -> bool | None:
        """None where no goal is set."""
        goal, limit = self.contender.goal, self.contender.goal_seconds
        if goal is None and limit is None:
            return None
        return (goal is None or self.ratio <= goal) and (limit is None or self.seconds <= limit)


def _round(sides: Sequence[Callable[[], float]]) -> list[float]:
    return [seconds() for seconds in sides]
