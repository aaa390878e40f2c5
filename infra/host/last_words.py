"""What does a host leave behind when its program has ended, in which order, and for how long does it try?"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Env, HostRecord, Scratch, StopReason
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host import records
from prefect_tpu.infra.host.assignment import Assignment
from prefect_tpu.infra.host.patience import insist
from prefect_tpu.infra.host.stalls import StallWatch
from prefect_tpu.infra.scratch import read_json

TERMINATION_LOG = "/dev/termination-log"  # by Kubernetes; what lies there at a container's end, its API tells


class LastWords:
    """The end of one host. `left`: how many seconds are left for it; None where its storage is this machine's disk."""

    def __init__(self, given: Assignment, left: Callable[[], float] | None) -> None:
        self._plan, self._host, self._storage, self._scratch = given.plan, given.host, given.storage, given.scratch
        self._left = left

    def outcome(self) -> dict[str, Any] | None:
        """The program's own account, once what it returned or raised lies where it is read from."""
        outcome = read_json(self._scratch / Scratch.OUTCOME)
        try:
            insist(self._keep_values, self._left)
        except (PlatformError, OSError) as exc:
            return records.unkept(outcome, str(exc))
        return outcome

    def _keep_values(self) -> None:
        names = {Scratch.VALUE: layout.result, Scratch.EXCEPTION: layout.exception}
        for name, kept in names.items():
            path = self._scratch / name
            if path.exists():
                self._storage.put_if_absent(kept(self._plan.attempt, self._host), path.read_bytes())

    def reason(self, told: StopReason | None) -> StopReason | None:
        """Why the program was told to leave: a notice of the platform's is somebody's stop where that was asked for.

        Looked for now and not when the notice came: the program must hear of it whether storage answers or not.
        """
        if told is StopReason.NOTICE:
            with contextlib.suppress(PlatformError):
                stop = insist(lambda: self._storage.get(layout.STOP), self._left)
                return told if stop is None else StopReason.STOP
        return told

    def end_silence(self, stalls: StallWatch) -> None:
        """A program that has ended by itself does not stand still any more."""
        self._try(stalls.end_silence)

    def leave(self, record: HostRecord, *shipments: Callable[[], None]) -> HostRecord:
        """To Kubernetes first, which asks no storage; then what was shipped now and then, and the record at last.

        Whoever sees the record may read the rest. Returns it.
        """
        if self._plan.scratch is not None:
            leave_with_kubernetes(record)
        for ship in shipments:
            self._try(ship)
        if self._plan.scratch is None:
            self._write(record)
        else:  # the exit code and the last words to Kubernetes say too how the host ended
            self._try(lambda: self._write(record))
        return record

    def _write(self, record: HostRecord) -> None:
        if self._storage.get(layout.plan(record.attempt)) is not None:  # else the job was deleted: not made again
            self._storage.put_if_absent(layout.record(record.attempt, record.host), record.to_json())

    def _try(self, act: Callable[[], None]) -> None:
        try:
            insist(act, self._left)
        except (PlatformError, OSError) as exc:
            sys.stderr.write(f"prefect-tpu: {exc}\n")


def leave_with_kubernetes(record: HostRecord) -> None:
    """As this container's last words; where there is no such file, nobody reads them."""
    path = Path(os.environ.get(Env.TERMINATION_LOG, TERMINATION_LOG))
    with contextlib.suppress(OSError):
        if path.exists():
            path.write_bytes(record.to_json())
