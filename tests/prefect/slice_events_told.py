"""What a Prefect server was told of slices, by its own account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect_server import Server

PREFIX = "prefect-tpu.slice."
Told = dict[str, Any]


def told_of(server: Server, resource: str, prefix: str = PREFIX) -> list[Told]:
    """The events that have to do with this resource, oldest first."""
    wanted = {"event": {"prefix": [prefix]}, "any_resource": {"id": [resource]}, "order": "ASC"}
    found: list[Told] = server.ask("/events/filter", filter=wanted, limit=50)["events"]
    return found


def told_of_run(server: Server, run: Mapping[str, Any]) -> list[Told]:
    return told_of(server, f"prefect.flow-run.{run['id']}")


def named(events: list[Told]) -> list[tuple[int, str]]:
    """(attempt, name) of each."""
    return [(one["payload"]["attempt"], one["event"].removeprefix(PREFIX)) for one in events]
