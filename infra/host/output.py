"""Where does what a program writes go? Into the host's log; of a pod, also to its standard output, as it comes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Protocol

from prefect_tpu.infra import layout
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import Storage

PART_BYTES = 2**20
MOST_PARTS = 64  # that wait on the disk while storage cannot be reached; what comes then takes the newest one's place
SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 15.0  # a host that is killed loses no more of its log than this
SHARE = 0.1  # of the age of the attempt: most of those that are killed are young
DRAIN_SECONDS = 5.0  # for the last bytes of a program that has ended
_BLOCK_BYTES = 65_536
_CUT = b"\nprefect-tpu: %d MiB of this log are missing here: the output could not be reached.\n"


class Output(Protocol):
    """What a program writes, on its way to whoever reads it."""

    @property
    def descriptor(self) -> int:
        """What the program writes to."""
        ...

    def started(self) -> None:
        """The program has it."""
        ...

    def ship_when_due(self, age_seconds: float) -> None:
        """Bring what was written since into the output, now and then."""
        ...

    def ended(self) -> None:
        """Nobody writes to it any more."""
        ...

    def ship(self) -> None:
        """Bring everything into the output."""
        ...


class LogFile:
    """The log itself, in an output that is a folder which this host sees."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def started(self) -> None:
        os.close(self.descriptor)

    def ship_when_due(self, age_seconds: float) -> None:
        return None

    def ended(self) -> None:
        return None

    def ship(self) -> None:
        return None


class LogParts:
    """A pipe whose bytes go to this process's own output at once, and by way of the disk into parts of the log.

    Only the newest part changes, and a part stops growing at `PART_BYTES`: however much a program writes, no more
    than that is written twice.
    """

    def __init__(
        self, storage: Storage, scratch: Path, attempt: int, host: int, *, most_parts: int = MOST_PARTS
    ) -> None:
        self._storage, self._attempt, self._host, self._most_parts = storage, attempt, host, most_parts
        self._folder = scratch / "log"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._source, self.descriptor = os.pipe()
        self._written = self._shipped = 0  # numbers of the newest part, and of the oldest that is not in the output
        self._shipped_bytes = 0  # of that one
        self._cut_bytes = 0
        self._next = SHORTEST_SECONDS
        self._pump = threading.Thread(target=self._pass_on, name="output of the program", daemon=True)

    def started(self) -> None:
        os.close(self.descriptor)
        self._pump.start()

    def ended(self) -> None:
        if self._pump.ident is not None:
            self._pump.join(DRAIN_SECONDS)

    def ship_when_due(self, age_seconds: float) -> None:
        if age_seconds >= self._next:
            self._next = age_seconds + min(LONGEST_SECONDS, max(SHORTEST_SECONDS, SHARE * age_seconds))
            self.ship()

    def ship(self) -> None:
        newest = self._written
        while self._shipped <= newest:
            path = self._path(self._shipped)
            content = path.read_bytes() if path.exists() else b""
            if len(content) != self._shipped_bytes:
                self._storage.put(layout.log_part(self._attempt, self._host, self._shipped), content)
            self._shipped_bytes = len(content)
            if self._shipped == newest:
                return
            path.unlink(missing_ok=True)
            self._shipped, self._shipped_bytes = self._shipped + 1, 0

    def _pass_on(self) -> None:
        """Until nobody can write any more. A reader that is gone or a full disk must not end the program."""
        with contextlib.suppress(OSError):
            while block := os.read(self._source, _BLOCK_BYTES):
                with contextlib.suppress(OSError):
                    _write_all(sys.__stdout__.fileno() if sys.__stdout__ else 1, block)
                with contextlib.suppress(OSError):
                    self._keep(block)

    def _keep(self, block: bytes) -> None:
        path = self._path(self._written)
        with path.open("ab") as file:
            file.write(block)
            size = file.tell()
        if size < PART_BYTES:
            return
        if self._written - self._shipped + 1 < self._most_parts:
            self._written += 1
        else:
            self._cut_bytes += size
            path.write_bytes(_CUT % (self._cut_bytes // 2**20))

    def _path(self, part: int) -> Path:
        return self._folder / str(part)


def _write_all(descriptor: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def open_output(storage: Storage, plan: HostPlan, host: int) -> Output:
    """Of a host with a disk of its own in parts, else the log itself."""
    if plan.scratch is None:
        return LogFile(Path(plan.output, layout.log(plan.attempt, host)))
    return LogParts(storage, plan.scratch_folder(host), plan.attempt, host)
