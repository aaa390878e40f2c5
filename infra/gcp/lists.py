"""Which objects are there now, however many they are?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.connection import Connection
from prefect_tpu.infra.gcp.errors import Expired
from prefect_tpu.infra.gcp.resources import Selection

PAGE = 500  # objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The objects of one moment, and the version of the cluster's data that a watch goes on from."""

    objects: tuple[dict[str, Any], ...]
    version: str


async def list_all(connection: Connection, selection: Selection, page: int = PAGE) -> Listing:
    """All objects of a selection. Pages that expired on the way are read anew, the second time as one piece."""
    try:
        return await _paged(connection, selection, page)
    except Expired:
        return await _paged(connection, selection, None)


async def _paged(connection: Connection, selection: Selection, page: int | None) -> Listing:
    objects: list[dict[str, Any]] = []
    query = {**selection.query, **({"limit": str(page)} if page else {})}
    while True:
        call = Call(verb="list", resource=selection.resource, namespace=selection.namespace, query=query)
        answer = await connection.send(call)
        objects += [_whole(found, selection) for found in answer.get("items") or ()]
        metadata = answer.get("metadata") or {}
        if not metadata.get("continue"):
            return Listing(objects=tuple(objects), version=str(metadata.get("resourceVersion", "")))
        query = {**query, "continue": metadata["continue"]}


def _whole(found: dict[str, Any], selection: Selection) -> dict[str, Any]:
    """An item of a list does not say of what type it is; everywhere else objects do."""
    return {"apiVersion": selection.resource.api_version, "kind": selection.resource.kind, **found}
