"""How does the runner learn how far the program is? By two files in the scratch folder."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from prefect_tpu.infra import contract
from prefect_tpu.infra.contract import Event, Progress, Scratch
from prefect_tpu.infra.scratch import add_event, answer_with_stacks, overwrite
from prefect_tpu.infra.training.context import context


class ProgressFiles:
    """Writes the newest `Progress` and appends events; outside a job it only remembers.

    Orbax's threads end a save while the program's thread reports, hence the lock.
    """

    def __init__(self, scratch: Path | None, started: float) -> None:
        self._scratch, self._started = scratch, started
        self._lock, self._is_failing = threading.Lock(), False
        self.current = Progress()

    def update(self, **changes: object) -> None:
        """Replace the progress, in memory and on disk."""
        with self._lock:
            self.current = replace(self.current, **changes)  # type: ignore[arg-type]
            if self._scratch is not None:
                with self._surviving():
                    overwrite(self._scratch / Scratch.PROGRESS, contract.write_json(asdict(self.current)))

    def after(self, moment: float) -> float:
        """Seconds from the runner's start to a moment of the monotonic clock."""
        return round(moment - self._started, 3)

    def event(self, name: Event, /, **facts: object) -> None:
        """Append one event with the seconds since the runner started; facts may have any name."""
        if self._scratch is None:
            return
        with self._lock, self._surviving():
            add_event(self._scratch, name, self.after(time.monotonic()), **facts)

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """A full disk must not end a training; whoever watches it sees that it is silent, and its log says why."""
        try:
            yield
            self._is_failing = False
        except OSError as exc:
            if not self._is_failing:  # else a line several times a second
                sys.stderr.write(f"prefect-tpu: a report cannot be written and nobody sees it: {exc}\n")
            self._is_failing = True


_files: ProgressFiles | None = None


def progress() -> ProgressFiles:
    """The one writer of this process; from now on the process also answers where it stands."""
    global _files
    if _files is None:
        here = context()
        if here is not None:
            answer_with_stacks(here.scratch)
        _files = ProgressFiles(None, 0.0) if here is None else ProgressFiles(here.scratch, here.started)
    return _files
