"""For how long does whoever follows a job do without the storage that its files are in?

A bucket's client tries again for a minute or so, which is right for a single question. A network may be away for
longer; the hosts run on meanwhile, and nothing is gained by leaving them alone.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from prefect_tpu.infra.errors import PlatformError, RefusedForGood

logger = logging.getLogger(__name__)
Seen = TypeVar("Seen")

OUTAGE_SECONDS = 600.0  # as long as a watch does without its API server
PAUSE_SECONDS = 2.0


async def outlast(look: Callable[[], Awaitable[Seen]], seconds: float, pause: float = PAUSE_SECONDS) -> Seen:
    """What a look at storage finds, looked again for so many seconds while it cannot be reached.

    Raises:
        PlatformError: Looking again does not help, or has not helped in time.
    """
    end, is_told = anyio.current_time() + seconds, False
    while True:
        try:
            return await look()
        except RefusedForGood:
            raise
        except PlatformError as exc:
            if anyio.current_time() + pause > end:
                raise
            if not is_told:
                logger.warning("%s The hosts run on; it is tried again for %.0f s.", exc, seconds)
            is_told = True
        await anyio.sleep(pause)
