"""When is an object deleted, and when has its name passed to another one? Both are what a conflict may mean."""

from __future__ import annotations

import asyncio

from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.connection import Connection
from prefect_tpu.infra.gcp.errors import Conflict

TRIES = 4  # an object that somebody changes at this very moment is not changed all the time


async def delete(connection: Connection, call: Call) -> bool:
    """Delete the object that the call's preconditions name; whether it was there. Raises `NotFound`.

    A conflict is the name of another object or a change under way: the one stays so, the other does not.
    """
    for tries_left in reversed(range(TRIES)):
        try:
            await connection.send(call)
            return True
        except Conflict:
            if tries_left:
                await asyncio.sleep(connection.patience.first_pause)
    return False
