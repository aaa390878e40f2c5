"""Which of this machine's slices are free, and who has the others?

A slice is a file lock. Its holder passes the open file on to the hosts it
starts, so a slice stays taken while any host lives, even when the process that
took it is dead.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.storage import LocalStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLock:
    """A slice this process has: its number and the locked file's descriptor."""

    number: int
    descriptor: int


def slice_count(environment: Mapping[str, str]) -> int:
    """How many slices this machine lends at once; 1 unless configured."""
    return whole_number(environment, Env.SLICES, default=1)


def whole_number(environment: Mapping[str, str], name: str, *, default: int) -> int:
    raw = environment.get(name, str(default))
    if not raw.isdecimal() or int(raw) < 1:
        raise UsageError(f"{name} is {raw!r}: give a whole number from 1.")
    return int(raw)


class LocalSlices:
    """The slices of this machine, as lock files in one folder."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = count
        self._owners = LocalStorage(folder)

    def take(self, job: str) -> SliceLock | str:
        """A free slice, or a sentence that says who has them all."""
        for number in range(self._count):
            descriptor = self._lock(number)
            if descriptor is not None:
                self._owners.put(f"{number}.json", json.dumps({"job": job}).encode())
                return SliceLock(number=number, descriptor=descriptor)
        owners = ", ".join(self._owner(number) for number in range(self._count))
        many = "the slice of this machine is" if self._count == 1 else f"all {self._count} slices of this machine are"
        return f"{many} taken by {owners}"

    def owners(self) -> tuple[str | None, ...]:
        """Who has each slice; None where it is free. Takes none, but for the moment of looking."""
        return tuple(None if self._is_free(number) else self._owner(number) for number in range(self._count))

    def give_back(self, lock: SliceLock) -> None:
        """Close this process's hold; hosts that still live keep theirs."""
        os.close(lock.descriptor)

    def _is_free(self, number: int) -> bool:
        if not (self._folder / f"{number}.lock").exists():
            return True
        descriptor = self._lock(number)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is not None

    def _lock(self, number: int) -> int | None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor = _beyond_standard(os.open(self._folder / f"{number}.lock", os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as exc:
            raise PlatformError(f"Could not open the slice locks in {self._folder}: {exc.strerror}.") from exc
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def _owner(self, number: int) -> str:
        raw = self._owners.get(f"{number}.json")
        try:
            return f"job {json.loads(raw or b'')['job']!r}"
        except (ValueError, KeyError, TypeError):
            return "another job"


def _beyond_standard(descriptor: int) -> int:
    """The same open file under a number that no standard stream has: a host's own streams would replace it."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(descriptor)
    return moved
