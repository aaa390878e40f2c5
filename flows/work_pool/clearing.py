"""What did ended jobs of a pool's outputs leave behind? Ended now and then, by one worker at a time."""

from __future__ import annotations

import logging
from functools import partial

import anyio
import anyio.to_thread

from prefect_tpu.flows.work_pool.outputs import Outputs
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.launcher import reaping
from prefect_tpu.infra.launcher.fleet import Fleet

log = logging.getLogger(__name__)
FIRST_SECONDS = 120.0  # a worker that has just come up first drives what it finds
REAP_SECONDS = 900.0
LONGEST_SECONDS = 600.0
TURN = ".reaping"  # beside the jobs: a folder with the lease of whoever clears up


async def keep_clearing(outputs: Outputs, fleet: Fleet) -> None:
    """For ever. What cannot be cleared up now is found again."""
    await anyio.sleep(FIRST_SECONDS)
    while True:
        for output in sorted(outputs.all):
            try:
                await clear(output, fleet)
            except (PrefectTpuError, OSError) as exc:
                log.warning("What ended jobs left in %s cannot be cleared up: %s", output, exc)
        await anyio.sleep(REAP_SECONDS)


async def clear(output: str, fleet: Fleet) -> int:
    """End whatever nobody can want any more; how much that was. Nothing where another worker does it now."""
    separator = "" if output.endswith("/") else "/"
    async with fleet.hold(f"{output}{separator}{TURN}") as held:
        if held is None:
            return 0
        # In a loop of its own, in a thread: finding it reads much, and blocks.
        return await anyio.to_thread.run_sync(partial(anyio.run, _reap, output), abandon_on_cancel=True)


async def _reap(output: str) -> int:
    ended = 0
    with anyio.move_on_after(LONGEST_SECONDS):
        for found in await reaping.find(output):
            ended += await _end(found)
    return ended


async def _end(found: reaping.Finding) -> bool:
    """Whether it has gone; one refusal must not keep the rest alive."""
    try:
        await found.end()
    except (PrefectTpuError, OSError) as exc:
        log.warning("%s cannot be ended: %s", found.what, exc)
        return False
    log.info("Ended %s: %s.", found.what, found.why)
    return True
