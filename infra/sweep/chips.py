"""Which trials hold how many chips? A ledger in the sweep's folder.

Its order is that of its entries, not of any clock. Who takes chips writes the entry after the last one seen, which one
writer gets: so no two, seeing the same free chips, ever take them both. Who takes a trial over takes over its chips: an
earlier driver that stood still, or whose network was away, cannot give them back after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.entries import Entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A trial has taken chips, or given back all it had. by: for whoever drove it."""

    trial: int
    chips: int
    is_taken: bool
    by: str = ""

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Move:
        with contract.reading("An entry of the ledger of chips"):
            return cls(
                trial=int(entry["trial"]),
                chips=int(entry["chips"]),
                is_taken=bool(entry["taken"]),
                by=str(entry.get("by", "")),
            )


def held(moves: Iterable[Move]) -> dict[int, int]:
    """Trial → chips that it holds after these moves."""
    return {move.trial: move.chips for move in _takings(moves).values()}


def _takings(moves: Iterable[Move]) -> dict[int, Move]:
    """Trial → how it took last what it holds."""
    found: dict[int, Move] = {}
    for move in moves:
        if move.is_taken:
            found[move.trial] = move
        else:
            found.pop(move.trial, None)
    return found


def most_held(moves: Iterable[Move]) -> int:
    """The most chips that all trials together ever held at once."""
    found: dict[int, int] = {}
    most = 0
    for move in moves:
        found[move.trial] = move.chips if move.is_taken else 0
        most = max(most, sum(found.values()))
    return most


class Chips:
    """The ledger of one sweep. by: who takes and gives back here; another one for each driver."""

    def __init__(self, storage: Storage, by: str) -> None:
        self._entries, self._by = Entries(storage, layout.CHIPS), by

    def moves(self) -> list[Move]:
        """All of them, oldest first."""
        return [Move.from_json(entry) for entry in self._entries.all()]

    def held(self) -> dict[int, int]:
        """Trial → chips that it holds now."""
        return held(self.moves())

    def take(self, trial: int, chips: int, budget: int) -> bool:
        """Whether the trial holds these chips now, for this driver; False where they would be more than the budget
        leaves. What it holds for another driver is taken over.
        """
        while True:
            moves = self.moves()
            holding = _takings(moves)
            taken = holding.get(trial)
            if taken is not None and taken.by == self._by:
                return True
            if taken is None and sum(move.chips for move in holding.values()) + chips > budget:
                return False
            if self._add(moves, trial, chips if taken is None else taken.chips, is_taken=True):
                return True

    def give_back(self, trial: int) -> None:
        """All that the trial holds for this driver; nothing happens where it holds none, or for another one since."""
        self._give_back(trial, is_mine_only=True)

    def free(self, trial: int) -> None:
        """All that the trial holds for whomever: it is over."""
        self._give_back(trial, is_mine_only=False)

    def _give_back(self, trial: int, *, is_mine_only: bool) -> None:
        while True:
            moves = self.moves()
            taken = _takings(moves).get(trial)
            if taken is None or (is_mine_only and taken.by != self._by):
                return
            if self._add(moves, trial, taken.chips, is_taken=False):
                return

    def _add(self, moves: Sequence[Move], trial: int, chips: int, *, is_taken: bool) -> bool:
        entry = {"trial": trial, "chips": chips, "taken": is_taken, "by": self._by}
        return self._entries.add(len(moves), entry)
