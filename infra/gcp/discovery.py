"""What does the cluster serve?"""

from __future__ import annotations

from prefect_tpu.infra.gcp.calls import Call
from prefect_tpu.infra.gcp.connection import Connection
from prefect_tpu.infra.gcp.errors import NotFound
from prefect_tpu.infra.gcp.resources import NODES, Resource


async def served_version(connection: Connection, resource: Resource) -> Resource:
    """The type in the first of its versions that the cluster serves. Raises `NotFound` where it serves none."""
    missing: NotFound | None = None
    for version in resource.versions:
        candidate = resource.only(version)
        try:
            answer = await connection.send(
                Call(verb="get", resource=candidate, path=f"/apis/{resource.group}/{version}")
            )
        except NotFound as exc:
            missing = missing or exc
            continue
        if any(found.get("name") == resource.plural for found in answer.get("resources") or ()):
            return candidate
    cluster, versions = connection.access.cluster, " or ".join(resource.versions)
    raise NotFound(
        f"Cluster {cluster} does not serve {resource.full_name} in {versions}: install what brings it, or name another"
        " cluster."
    ) from missing


async def server_version(connection: Connection) -> str:
    """The version of the API server, as in `v1.36.3`."""
    answer = await connection.send(Call(verb="get", resource=NODES, path="/version"))
    return str(answer["gitVersion"])
