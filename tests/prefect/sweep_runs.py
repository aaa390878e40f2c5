"""Sweeps of these tests: a folder each, and what is read of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect_jobs import Job

from prefect_tpu.infra import layout
from prefect_tpu.infra.storage import LocalStorage
from prefect_tpu.infra.sweep.chips import Chips, most_held

PROGRAM = f"{Path(__file__).parent.parent / 'programs' / 'trier.py'}:main"
SPACE = {"x": {"low": 0.0, "high": 6.0}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(Job):
    """A sweep with a machine of its own that lends as many slices as its trials may hold."""

    slices: int = 2

    @property
    def environment(self) -> dict[str, str]:
        # No zero-argument `super` in a class with slots.
        return {**Job.environment.fget(self), "PREFECT_TPU_LOCAL_SLICES": str(self.slices)}  # type: ignore[attr-defined]

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    @property
    def storage(self) -> LocalStorage:
        return LocalStorage(self.jobs / layout.sweep(self.name))

    def trial(self, number: int) -> Path:
        return self.jobs / layout.trial_job(self.name, number)

    def lives_of(self, number: int) -> list[str]:
        """What the program of a trial says of its starts and ends."""
        return [line["event"] for line in _lines(self.trial(number) / "lives.jsonl")]

    def steps_of(self, number: int) -> int:
        return int((self.trial(number) / "next").read_text())

    def most_held(self) -> int:
        """The most chips that all trials held at once, by the ledger."""
        return most_held(self._chips.moves())

    def held(self) -> dict[int, int]:
        return self._chips.held()

    @property
    def _chips(self) -> Chips:
        return Chips(self.storage, driver="the tests")

    def most_living(self) -> int:
        """The most programs that ever lived at once, as each saw it at its start."""
        return max(line["living"] for line in _lines(self.jobs / "at_once"))

    def let_go_on(self) -> None:
        (self.jobs / "go").touch()

    def lives_here(self) -> list[Any]:
        """Live processes of any trial."""
        return [process for number in range(20) for process in self._job(number).processes()]

    def _job(self, number: int) -> Job:
        return Job(name=layout.trial_job(self.name, number), folder=self.folder)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
