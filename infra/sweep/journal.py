"""Where does Optuna keep a study? In the sweep's folder, on a disk or in a bucket: an object for each thing it writes.

This module needs Optuna; `study` loads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from optuna.storages.journal import BaseJournalBackend

from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.sweep.entries import Entries


class Journal(BaseJournalBackend):
    """Optuna's log, whose records lie in the order of their objects. Used from one thread at a time."""

    def __init__(self, storage: Storage) -> None:
        self._where = storage.where(layout.STUDY)
        self._entries = Entries(storage, layout.STUDY)
        self._written: list[dict[str, Any]] = []
        self._objects = 0  # whose records are in `_written`
        self._kept: list[dict[str, Any]] | None = None
        self._is_stale = False

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        """The records from this number on, with those that are still kept together."""
        if self._kept is None:
            self._look()
        return [*self._written, *(self._kept or ())][log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Write these records behind all others, or keep them for the end of `together`."""
        if self._kept is not None:
            self._kept.extend(logs)
            return
        while not self._add(logs):
            self._look()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What Optuna writes in the block is one object, written at its end: all of it is there, or nothing.

        After an exception in the block the study is to be opened anew, as it has seen what was never written. Raises
        `PlatformError` where another process has written meanwhile.
        """
        self._look()
        self._kept = []
        try:
            yield
        except BaseException:
            self._is_stale = True
            raise
        kept, self._kept = self._kept, None
        if kept and not self._add(kept):
            self._is_stale = True
            raise PlatformError(
                f"Another process has written to {self._where} meanwhile: it drives this sweep. Run it again to follow."
            )

    def _look(self) -> None:
        assert not self._is_stale, "a study that has seen what was never written is opened anew"
        found = self._entries.all()
        for entry in found[self._objects :]:
            self._written.extend(entry["logs"])
        self._objects = len(found)

    def _add(self, logs: list[dict[str, Any]]) -> bool:
        return self._entries.add(self._objects, {"logs": logs})
