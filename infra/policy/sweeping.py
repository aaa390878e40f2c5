"""Which trials of a sweep begin, go on, stop or give back their chips now?

Trials that were begun come before those that are to begin, and of these a higher priority comes first. Nobody overtakes
a trial that waits for chips: else a large one would wait for as long as small ones come. One that has its chips goes on
with them, but where more are held than there may be: the budget may be smaller than when they were taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A trial that has its parameters.

    chips: that it takes.
    holds: it has them, as the ledger says: also while its hosts outlive a driver that was killed.
    is_driven: this process sees to its job.
    is_told: its end is known to whoever chooses parameters.
    is_given_up: it is not worth going on with.
    """

    number: int
    chips: int
    holds: bool = False
    is_driven: bool = False
    is_told: bool = False
    is_given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A trial that is to begin. holds: it took its chips, and whoever did so was killed before it began."""

    chips: int
    priority: float = 0.0
    holds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is due now.

    give_back: trials whose chips are free again.
    go_on: begun trials whose jobs are driven from now on, after taking chips where they hold none; all that are driven
        hold no more than the budget.
    begin: how many of those wanted begin, by their priority.
    stop: trials whose jobs are asked to stop, again at each turn.
    is_over: nothing is left to do, now or later; not while chips are to be given back.
    """

    give_back: tuple[int, ...] = ()
    go_on: tuple[int, ...] = ()
    begin: int = 0
    stop: tuple[int, ...] = ()
    is_over: bool = False


class _Prioritised(Protocol):
    @property
    def priority(self) -> float: ...


P = TypeVar("P", bound=_Prioritised)


def by_priority(wanted: Sequence[P]) -> list[P]:
    """The higher priority first, and of equals whoever was named first."""
    return sorted(wanted, key=lambda item: -item.priority)


def decide(budget: int, begun: Sequence[Begun], wanted: Sequence[Wanted], *, is_leaving: bool = False) -> Turn:
    """What is due.

    Args:
        budget: the most chips that all trials may hold together.
        begun: all of them, the oldest first.
        wanted: all that are to begin, now or later.
        is_leaving: the sweep is to stop: nothing begins, and everything that is driven stops.
    """
    over = tuple(trial.number for trial in begun if trial.holds and trial.is_told and not trial.is_driven)
    if is_leaving:
        stop = tuple(trial.number for trial in begun if trial.is_driven)
        return Turn(give_back=over, stop=stop, is_over=not over and not any(trial.is_driven for trial in begun))
    free = budget - sum(trial.chips for trial in begun if trial.holds and trial.number not in over)
    free -= sum(trial.chips for trial in wanted if trial.holds)
    room = budget - sum(trial.chips for trial in begun if trial.is_driven)
    go_on, chips, is_waiting = _going_on(begun, _Chips(free=free, room=room))
    begin = 0 if is_waiting else _beginning(wanted, chips)
    return Turn(
        give_back=over,
        go_on=go_on,
        begin=begin,
        stop=tuple(t.number for t in begun if t.is_driven and t.is_given_up and not t.is_told),
        is_over=not over and not wanted and all(trial.is_told and not trial.is_driven for trial in begun),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chips:
    """How many are left. free: that no trial holds. room: that no trial uses whose job is driven.

    There is more room than is free where trials hold chips and nobody drives them; less than they hold where the budget
    is smaller than when they took them.
    """

    free: int
    room: int

    def is_enough(self, trial: Begun | Wanted) -> bool:
        return trial.chips <= (self.room if trial.holds else self.free)

    def without(self, trial: Begun | Wanted) -> _Chips:
        """Once it is driven."""
        return _Chips(free=self.free - (0 if trial.holds else trial.chips), room=self.room - trial.chips)


def _going_on(begun: Sequence[Begun], chips: _Chips) -> tuple[tuple[int, ...], _Chips, bool]:
    """(trials without an end that nobody drives and that have or get chips, what is left, whether one waits)."""
    found, is_waiting = [], False
    for trial in begun:
        if trial.is_told or trial.is_driven:
            continue
        if chips.is_enough(trial) and (trial.holds or not is_waiting):
            found.append(trial.number)
            chips = chips.without(trial)
        else:
            is_waiting = True
    return tuple(found), chips, is_waiting


def _beginning(wanted: Sequence[Wanted], chips: _Chips) -> int:
    count = 0
    for trial in by_priority(wanted):
        if not chips.is_enough(trial):
            break
        chips = chips.without(trial)
        count += 1
    return count
