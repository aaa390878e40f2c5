"""When has a name passed to another object, and when is an object only being changed? Both are what a conflict says."""

from __future__ import annotations

import asyncio
from typing import Any

from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.connection import Connection
from prefect_tpu.infra.gcp.errors import Conflict

TRIES = 4  # an object that somebody changes at this very moment is not changed all the time


async def send_despite_changes(connection: Connection, call: Call) -> dict[str, Any]:
    """The answer to a change or deletion that does not depend on what the object is like now.

    Raises `Conflict` where it stays one: then the name is another object's.
    """
    for _ in range(TRIES - 1):
        try:
            return await connection.send(call)
        except Conflict:
            await asyncio.sleep(connection.patience.first_pause)
    return await connection.send(call)
