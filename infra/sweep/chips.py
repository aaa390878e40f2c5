"""Which trials hold how many chips? A ledger in the sweep's folder.

Its order is that of its entries, not of any clock. Who takes chips writes the entry after the last one seen, which one
writer gets: so no two, seeing the same free chips, ever take them both. Each driver of the sweep says first that it has
come: an earlier one, that stood still or whose network was away, changes nothing after that.
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
    """The ledger of one sweep. driver: who takes and gives back here; no two have one name."""

    def __init__(self, storage: Storage, driver: str) -> None:
        self._entries, self._driver = Entries(storage, layout.CHIPS), driver
        self._has_come = False

    def moves(self) -> list[Move]:
        """All of them, oldest first."""
        return _moves(self._entries.all())

    def held(self) -> dict[int, int]:
        """Trial → chips that it holds now."""
        return held(self.moves())

    def take(self, trial: int, chips: int, budget: int) -> bool:
        """Whether the trial holds these chips now; False where they would be more than the budget leaves, and where
        another driver has come since.
        """
        while (log := self._ours()) is not None:
            holding = held(_moves(log))
            if trial in holding:
                return True
            if sum(holding.values()) + chips > budget:
                return False
            if self._entries.add(len(log), {"trial": trial, "chips": chips, "taken": True}):
                return True
        return False

    def give_back(self, trial: int) -> None:
        """All that the trial holds; nothing happens where it holds none, and where another driver has come since."""
        while (log := self._ours()) is not None:
            chips = held(_moves(log)).get(trial)
            if chips is None or self._entries.add(len(log), {"trial": trial, "chips": chips, "taken": False}):
                return

    def _ours(self) -> list[dict[str, Any]] | None:
        """All entries, as they are now; None where another driver has come after this one."""
        while not self._has_come:
            self._has_come = self._entries.add(len(self._entries.all()), {"driver": self._driver})
        log = [*self._entries.all()]
        last = next(entry["driver"] for entry in reversed(log) if "driver" in entry)
        return log if last == self._driver else None


def _moves(log: Sequence[dict[str, Any]]) -> list[Move]:
    return [Move.from_json(entry) for entry in log if "driver" not in entry]
