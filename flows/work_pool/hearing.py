"""Which runs have just changed, by Prefect's own events? A help to be quick: what is not heard is seen by looking."""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

import anyio
from prefect.client.schemas.objects import WorkPool
from prefect.events.clients import get_events_subscriber
from prefect.events.filters import EventFilter, EventNameFilter, EventRelatedFilter
from prefect.events.schemas.events import Event
from prefect.settings import PREFECT_API_URL

log = logging.getLogger(__name__)
PREFIX = "prefect.flow-run."
CONNECT_SECONDS, CLOSE_SECONDS = 10.0, 5.0
REST_SECONDS = 15.0  # after a connection that was lost, or never came
# Heartbeats are many, and say nothing that is not known.
NAMES = [f"{PREFIX}{name}" for name in ("Pending", "Cancelling", "Cancelled", "Completed", "Failed", "Crashed")]


async def hear_of_runs(pool: WorkPool, changed: Callable[[UUID, UUID], None]) -> None:
    """For ever: tell of each run of the pool that has moved, and of the id of its state.

    A server that sends none is asked again now and then.
    """
    if not PREFECT_API_URL.value():  # a server in a process of its own would be started to be listened to
        return
    is_told = False
    while True:
        try:
            await _listen(pool, changed)
        except Exception as exc:  # Prefect's subscriber raises what its websocket does, and plain exceptions of its own
            if not is_told:
                log.info("No events of work pool %r are heard: %s. Its runs are looked at instead.", pool.name, exc)
            is_told = True
        await anyio.sleep(REST_SECONDS)


async def _listen(pool: WorkPool, changed: Callable[[UUID, UUID], None]) -> None:
    wanted = EventFilter(
        event=EventNameFilter(name=NAMES), related=EventRelatedFilter(id=[f"prefect.work-pool.{pool.id}"])
    )
    events = get_events_subscriber(filter=wanted, reconnection_attempts=0)
    # Whoever is cancelled while it connects or parts would leave its socket open.
    with anyio.fail_after(CONNECT_SECONDS, shield=True):
        await events.__aenter__()
    try:
        async for event in events:
            if (run := run_of(event)) is not None:
                changed(run, event.id)  # which is that of the state
    finally:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            await events.__aexit__(None, None, None)


def run_of(event: Event) -> UUID | None:
    """The run that an event is about."""
    try:
        return UUID(event.resource.id.removeprefix(PREFIX))
    except ValueError:
        return None
