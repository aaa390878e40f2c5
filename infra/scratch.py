"""What does a host's program say of itself, and how? By files in its scratch folder, which its runner and the local
backend read. Of a folder on a disk of the host's own, others read what the runner tells of it: `HostProgress`.
"""

from __future__ import annotations

import faulthandler
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import STACKS_SIGNAL, Event, Progress, Scratch

JOINED_WITHIN_BYTES = 65_536  # hosts meet before they report much


def read_progress(folder: Path) -> Progress:
    """The program's newest report; empty where it made none."""
    return _progress(read_json(folder / Scratch.PROGRESS) or {})


def _progress(data: dict[str, Any]) -> Progress:
    metrics = data.get("metrics")
    return Progress(
        step=_step(data.get("step")),
        first_step=_step(data.get("first_step")),
        saved_step=_step(data.get("saved_step")),
        metrics=_numbers(metrics) if isinstance(metrics, dict) else {},
        reported_after=_number(data.get("reported_after")),
        step_seconds=_number(data.get("step_seconds")),
        own_seconds=_number(data.get("own_seconds")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProgress:
    """How far a host is, as `layout.progress` tells those who do not see its disk."""

    progress: Progress = field(default_factory=Progress)
    joined: bool = False

    @classmethod
    def of(cls, folder: Path) -> HostProgress:
        """What its scratch folder says."""
        progress = read_progress(folder)
        return cls(progress=progress, joined=progress.step is not None or joined_after(folder) is not None)

    def to_json(self) -> bytes:
        return contract.write_json({**asdict(self.progress), "joined": self.joined})

    @classmethod
    def from_json(cls, raw: bytes | None) -> HostProgress:
        """Empty where nothing was told yet, or what was told cannot be read: it is told again soon."""
        try:
            data = {} if raw is None else contract.read_json(raw, "A host's progress")
        except contract.ContractError:
            data = {}
        return cls(progress=_progress(data), joined=bool(data.get("joined")))


def read_log(get: Callable[[str], bytes | None], attempt: int, host: int) -> Iterator[bytes]:
    """What a host's runner told of its program's output, part by part; `get` reads a name of the job's folder."""
    parts = (get(layout.log_part(attempt, host, number)) for number in count())
    return (part for part in takewhile(lambda part: part is not None, parts) if part is not None)


def _step(value: object) -> int | None:
    """The program writes this file, so anything may stand in it."""
    return value if isinstance(value, int) else None


def _numbers(values: dict[str, object]) -> dict[str, float]:
    return {name: number for name, value in values.items() if (number := _number(value)) is not None}


def _number(value: object) -> float | None:
    """None also for a whole number that no float can hold."""
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def signs_of_life(folder: Path) -> tuple[int | float | None, ...] | None:
    """Whatever a program's reports, saves and events change; None before the first."""
    progress = read_progress(folder)
    try:
        events = (folder / Scratch.EVENTS).stat().st_size
    except OSError:
        events = 0
    signs = (progress.step, progress.saved_step, progress.reported_after, events)
    return None if signs == (None, None, None, 0) else signs


def joined_after(folder: Path) -> float | None:
    """Seconds from the runner's start until all hosts had met; None where they have not."""
    try:
        with (folder / Scratch.EVENTS).open() as file:
            lines = file.readlines(JOINED_WITHIN_BYTES)
        return next((_number(e["after"]) for e in map(json.loads, lines) if e["event"] == Event.JOINED), None)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_json(path: Path) -> dict[str, Any] | None:
    """A record of ours; None where it is absent, damaged or newer than this version."""
    try:
        return contract.read_json(path.read_bytes(), path.name)
    except (OSError, contract.ContractError):
        return None


def overwrite(path: Path, data: bytes) -> None:
    """Atomic for every reader, but not synced: this happens several times a second and need not survive a power cut."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")  # a program may be several processes
    temporary.write_bytes(data)
    os.replace(temporary, path)


def keep_first(path: Path, data: bytes) -> bytes:
    """Write it where nothing is yet, atomically; what is there afterwards. Of several threads one is the first."""
    temporary = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
    temporary.write_bytes(data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return path.read_bytes()
    finally:
        temporary.unlink()
    return data


def add_event(folder: Path, event: Event, after: float, /, **facts: object) -> None:
    """Append an event that happened so many seconds after the runner's start; facts may have any name."""
    line = json.dumps({**facts, "after": after, "event": event.value})
    descriptor = os.open(folder / Scratch.EVENTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, f"{line}\n".encode())  # a line at once; Python's files take four times as long
    finally:
        os.close(descriptor)


def answer_with_stacks(folder: Path) -> None:
    """From now on this process writes the stacks of all its threads when it gets `STACKS_SIGNAL`.

    The file says that it can: the signal ends a process that does not know it. It has its name only once the process
    listens, and is appended to, so that whoever asks may empty it.
    """
    path = folder / Scratch.STACKS.format(pid=os.getpid())
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        faulthandler.register(STACKS_SIGNAL, file=temporary.open("ab"), all_threads=True)
        os.replace(temporary, path)
