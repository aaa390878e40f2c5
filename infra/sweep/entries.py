"""A log of objects in their order, each written once: whoever writes next must have seen all that is there."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.launcher.history import said_where
from prefect_tpu.infra.storage import Storage


class Entries:
    """The entries of one folder, counted from 0 without a gap. What was read once is not read again."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage, self._folder = storage, folder
        self._read: list[dict[str, Any]] = []

    def all(self) -> list[dict[str, Any]]:
        """Every entry that is there now, oldest first. Raises `ContractError` for one that is damaged."""
        while (raw := self._storage.get(self._name(len(self._read)))) is not None:
            name = self._name(len(self._read))
            with said_where(self._storage, name):
                self._read.append(contract.read_json(raw, name))
        return self._read

    def add(self, number: int, entry: dict[str, Any]) -> bool:
        """Write the entry of this number, which is one past the last that was read; False where somebody has."""
        return self._storage.put_if_absent(self._name(number), contract.write_json(entry))

    def _name(self, number: int) -> str:
        return layout.entry(self._folder, number)
