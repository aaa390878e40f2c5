"""Which jobs are there, and how does each stand? `prefect-tpu list`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.flows.shell.durations import written
from prefect_tpu.flows.shell.picture import STYLES, WHERE, without_empty
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.launcher.jobs import MOST_AT_ONCE, folder_names
from prefect_tpu.infra.launcher.status import JobStatus, StatusReader
from prefect_tpu.infra.request import default_output
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage, open_storage

COLUMNS = ("NAME", "STATE", "ACCELERATOR", WHERE, "ATTEMPT", "STEP", "AGE", "DRIVER")
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One job; `seen` is None where its files cannot be read, and `problem` then says why."""

    name: str
    seen: JobStatus | None
    problem: str = ""

    @property
    def state(self) -> str:
        return UNREADABLE if self.seen is None else self.seen.state.value

    @property
    def began(self) -> float:
        return 0.0 if self.seen is None else self.seen.began

    def to_json(self) -> dict[str, Any]:
        if self.seen is None:
            return {"name": self.name, "state": UNREADABLE, "error": self.problem}
        return self.seen.to_json()


def rows_of(output: str | None, states: Sequence[str]) -> list[Row]:
    """The jobs in an output, oldest first. One that is damaged does not hide the others."""
    known = [*(state.value for state in JobState), UNREADABLE]
    for state in states:
        if state not in known:
            raise UsageError(f"--state {state!r} is no state of a job: choose from {', '.join(known)}.")
    storage = open_storage(output or default_output())
    with ThreadPoolExecutor(MOST_AT_ONCE) as side_by_side:
        read = side_by_side.map(lambda name: _row(storage, name), folder_names(storage))
        rows = [row for row in read if row is not None]
    return sorted((row for row in rows if not states or row.state in states), key=lambda row: (row.began, row.name))


def _row(storage: Storage, name: str) -> Row | None:
    try:
        return Row(name=name, seen=StatusReader(storage.inside(name)).read())
    except ContractError as exc:
        return Row(name=name, seen=None, problem=str(exc))
    except NoSuchJob:  # a folder of something else, or deleted since
        return None


def listed(rows: Sequence[Row]) -> None:
    """Print the table; what cannot be read is explained below it, and that there is nothing, on standard error."""
    console = Console(highlight=False)
    if rows:
        cells = [_cells(row, time.time()) for row in rows]
        console.print(*columns(*without_empty(WHERE, COLUMNS, cells)), sep="\n", soft_wrap=not console.is_terminal)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    if not rows:
        errors.print("No jobs.", markup=False)
    for row in rows:
        if row.problem:
            errors.print(f"{row.name}: {row.problem}", markup=False)


def _cells(row: Row, now: float) -> list[str | Text]:
    seen = row.seen
    if seen is None:
        return [row.name, Text(UNREADABLE, style="red"), *[""] * (len(COLUMNS) - 2)]
    step = "-" if seen.step is None else f"{seen.step}" if seen.steps is None else f"{seen.step}/{seen.steps}"
    return [
        seen.name,
        Text(seen.state.value, style=STYLES[seen.state]),
        seen.accelerator,
        seen.where,
        str(seen.attempt or "-"),
        step,
        written(now - seen.began),
        seen.driver or ("nobody" if seen.is_abandoned else "-"),
    ]
