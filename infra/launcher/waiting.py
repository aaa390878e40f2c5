"""What does a job wait for? Told while it lasts, and written down for those who only look at the job's files."""

from __future__ import annotations

import anyio.to_thread

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.launcher.news import Announcer
from prefect_tpu.infra.state import WaitFor
from prefect_tpu.infra.storage import Storage


class WaitNote:
    """One driver's words on what its job waits for; told at once, and written when they change, by `settle`."""

    def __init__(self, storage: Storage, tell: Announcer) -> None:
        self._storage, self._tell = storage, tell
        self._noted: tuple[int, str] | None = None
        self._written: tuple[int, str] | None = None

    def say(self, attempt: int, reason: str, seconds: float, what: WaitFor = WaitFor.SLICE) -> None:
        """The attempt has been without a slice for so long, and why."""
        self._tell.waits(attempt, reason, seconds, what)
        self._noted = attempt, reason

    def end(self) -> None:
        """It waits no longer, however that came."""
        self._noted = None

    async def settle(self, *, ended: bool = False) -> None:
        """Write what was said last, where that is not written. ended: it waits no longer."""
        if ended:
            self.end()
        while (noted := self._noted) != self._written:
            await anyio.to_thread.run_sync(self._write, noted)
            self._written = noted

    def _write(self, noted: tuple[int, str] | None) -> None:
        if noted is None:
            self._storage.delete(layout.WAITING)
        else:
            attempt, reason = noted
            self._storage.put(layout.WAITING, contract.write_json({"attempt": attempt, "reason": reason}))


def read_waiting(storage: Storage, attempt: int) -> str | None:
    """What the attempt waits for, as its driver wrote it last; None where it wrote nothing, or of another one."""
    raw = storage.get(layout.WAITING)
    if raw is None:
        return None
    with contract.reading(layout.WAITING):
        note = contract.read_json(raw, layout.WAITING)
        return str(note["reason"]) if note["attempt"] == attempt else None
