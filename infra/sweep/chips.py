"""Which trials hold how many chips? A ledger in the sweep's folder.

Its order is that of its entries, not of any clock. Who takes chips writes the entry after the last one seen, which one
writer gets: so no two, seeing the same free chips, ever take them both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.entries import Entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A trial has taken chips, or given back all it had."""

    trial: int
    chips: int
    is_taken: bool

    @classmethod
    def from_json(cls, entry: dict[str, Any]) -> Move:
        with contract.reading("An entry of the ledger of chips"):
            return cls(trial=int(entry["trial"]), chips=int(entry["chips"]), is_taken=bool(entry["taken"]))


def held(moves: Iterable[Move]) -> dict[int, int]:
    """Trial → chips that it holds after these moves."""
    found: dict[int, int] = {}
    for move in moves:
        if move.is_taken:
            found[move.trial] = move.chips
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
    """The ledger of one sweep."""

    def __init__(self, storage: Storage) -> None:
        self._entries = Entries(storage, layout.CHIPS)

    def moves(self) -> list[Move]:
        """All of them, oldest first."""
        return [Move.from_json(entry) for entry in self._entries.all()]

    def held(self) -> dict[int, int]:
        """Trial → chips that it holds now."""
        return held(self.moves())

    def take(self, trial: int, chips: int, budget: int) -> bool:
        """Whether the trial holds these chips now; False where they would be more than the budget leaves."""
        while True:
            moves = self.moves()
            holding = held(moves)
            if trial in holding:
                return True
            if sum(holding.values()) + chips > budget:
                return False
            if self._entries.add(len(moves), {"trial": trial, "chips": chips, "taken": True}):
                return True

    def give_back(self, trial: int) -> None:
        """All that the trial holds; nothing happens where it holds none."""
        while True:
            moves = self.moves()
            chips = held(moves).get(trial)
            if chips is None or self._entries.add(len(moves), {"trial": trial, "chips": chips, "taken": False}):
                return
