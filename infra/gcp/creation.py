"""How is an object made exactly once, by whoever tries, however often?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect_tpu.infra.gcp.adoption import is_going, other_owner
from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.connection import Connection
from prefect_tpu.infra.gcp.errors import ClusterError, Conflict, NotFound, Unavailable
from prefect_tpu.infra.gcp.patience import persevere
from prefect_tpu.infra.gcp.resources import Resource


class _Going(Conflict):
    """The name's object was deleted and has not ended yet."""


def creation(
    resource: Resource, manifest: Mapping[str, Any], namespace: str, query: Mapping[str, str] | None = None
) -> Call:
    """The request that makes an object, in the namespace it names or else the given one."""
    metadata = manifest.get("metadata") or {}
    return Call(
        verb="create",
        resource=resource,
        namespace=metadata.get("namespace") or namespace,
        name=metadata.get("name"),
        query=query or {},
        body=manifest,
    )


async def create_or_adopt(connection: Connection, call: Call, owner: tuple[str, ...]) -> dict[str, Any]:
    """The object as it is in the cluster, made by this call or found to be ours."""
    return await persevere(
        lambda: _try(connection, call, owner),
        connection.patience,
        seconds=connection.patience.retry,
        is_worth=lambda error: isinstance(error, Unavailable | _Going),
    )


async def _try(connection: Connection, call: Call, owner: tuple[str, ...]) -> dict[str, Any]:
    try:
        return await connection.send_once(call)
    except Conflict as exc:
        return await _adopt(connection, call, owner, exc)
    except Unavailable as exc:
        if exc.is_unprocessed:
            raise
        return await _adopt(connection, call, owner, exc)  # the object may be there although no answer came


async def _adopt(connection: Connection, call: Call, owner: tuple[str, ...], why: ClusterError) -> dict[str, Any]:
    try:
        found = await connection.send(
            Call(verb="get", resource=call.resource, namespace=call.namespace, name=call.name)
        )
    except NotFound:
        if isinstance(why, Unavailable):
            raise why from None
        raise Unavailable(f"{why} It went away meanwhile.", why.answer) from None  # so the name is free now
    about = f"{call.object} of cluster {connection.access.cluster}"
    if (other := other_owner(call.body or {}, found, owner)) is not None:
        raise Conflict(f"{about} exists and belongs to {other}: choose another name, or delete it.", why.answer)
    if is_going(found):
        raise _Going(f"{about} was deleted and has not ended yet: wait for it, or see what its finalizers wait for.")
    return found
