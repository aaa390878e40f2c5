"""Why did a run's slice go, in the run's own log? Prefect shows it there; the hosts themselves said it elsewhere."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread

from prefect_tpu.infra.errors import Failure, PrefectTpuError
from prefect_tpu.infra.launcher.host_logs import Wanted, lines
from prefect_tpu.infra.storage import Storage

log = logging.getLogger(__name__)
LAST_LINES = 40
READ_SECONDS = 15.0  # a log that takes longer is left out: the run must not wait for it
Log = logging.Logger | logging.LoggerAdapter[Any]


async def tell(run_log: Log, storage: Storage, attempt: int, cause: Failure | None) -> None:
    """Write down the cause, its evidence, and the last lines of the host that failed first."""
    if cause is not None:
        run_log.error("Attempt %d ended: %s", attempt, "\n".join([str(cause), *cause.evidence, cause.advice]))
    host = cause.host if cause is not None and cause.host is not None else 0
    if said := await last_lines(storage, attempt, host):
        run_log.error("The last lines of host %d in attempt %d:\n%s", host, attempt, "\n".join(said))


async def last_lines(storage: Storage, attempt: int, host: int) -> list[str]:
    """Of what the host's program wrote; none where it wrote nothing, or nothing can be read in time.

    Read in a loop of its own, in a thread: reading it blocks now and then.
    """
    wanted = Wanted(hosts=(host,), attempt=attempt, tail=LAST_LINES)
    try:
        return await anyio.to_thread.run_sync(anyio.run, _read, storage, wanted, abandon_on_cancel=True)
    except (PrefectTpuError, OSError) as exc:
        log.info("The log of host %d in attempt %d of %s cannot be read: %s", host, attempt, storage.url, exc)
        return []


async def _read(storage: Storage, wanted: Wanted) -> list[str]:
    found: list[str] = []
    with anyio.move_on_after(READ_SECONDS):
        async with aclosing(lines(storage, wanted)) as written:
            async for line in written:
                found.append(line.text)
    return found[-LAST_LINES:]
