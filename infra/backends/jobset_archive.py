"""How does what hosts run stay in a cluster exactly as long as a JobSet needs it? JobSets own the ConfigMap with it.

Many attempts of one process that begin at once become its owners in one request: it is half a megabyte, which the API
server rewrites each time.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect_tpu.infra.gcp.adoption import other_owner
from prefect_tpu.infra.gcp.calls import STRATEGIC_PATCH
from prefect_tpu.infra.gcp.errors import NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.names import ARCHIVE_PREFIX
from prefect_tpu.infra.gcp.ownership import ARCHIVE_IDENTITY
from prefect_tpu.infra.gcp.resources import CONFIG_MAPS, JOBSETS
from prefect_tpu.infra.gcp.sharing import shared

Object = dict[str, Any]


async def ensure(cluster: Kubernetes, archive: Object) -> None:
    """Make the ConfigMap, or adopt what is there."""
    await (await _owners(cluster, archive["metadata"]["namespace"], archive["metadata"]["name"])).ensure(
        cluster, archive
    )


async def own(cluster: Kubernetes, archive: str, jobset: Object) -> bool:
    """Whether the ConfigMap is there and the JobSet an owner of it."""
    metadata = jobset["metadata"]
    owner = {"apiVersion": JOBSETS.api_version, "kind": JOBSETS.kind, "name": metadata["name"], "uid": metadata["uid"]}
    return await (await _owners(cluster, metadata["namespace"], archive)).add(cluster, owner)


async def _owners(cluster: Kubernetes, namespace: str, archive: str) -> Owners:
    """Of one ConfigMap, shared by whatever this process does with it."""
    if (together := shared()) is None:
        return Owners(namespace, archive)

    async def make() -> Owners:
        return Owners(namespace, archive)

    return await together.get(("owners", str(cluster.name), namespace, archive), make)


async def own_all(cluster: Kubernetes, jobset: Object) -> None:
    """Have the ConfigMap go with this JobSet, also where whoever sent both was killed in between."""
    for name in _archives_of(jobset):
        await own(cluster, name, jobset)


def _archives_of(jobset: Object) -> set[str]:
    templates = (one["template"]["spec"]["template"]["spec"] for one in jobset["spec"]["replicatedJobs"])
    volumes = (volume for template in templates for volume in template.get("volumes") or ())
    mounted = {str((volume.get("configMap") or {}).get("name", "")) for volume in volumes}
    return {name for name in mounted if name.startswith(ARCHIVE_PREFIX)}


class Owners:
    """Who is to own one ConfigMap: one request at a time, for all who have come meanwhile."""

    is_over = False

    def __init__(self, namespace: str, archive: str) -> None:
        self._namespace, self._archive = namespace, archive
        self._waiting: dict[str, Object] = {}  # by uid
        self._answers: dict[str, bool | Exception] = {}
        self._lock = asyncio.Lock()
        self._is_there = False  # as far as is known: it is as long as somebody owns it

    async def close(self) -> None:
        """Nothing is open."""

    async def ensure(self, cluster: Kubernetes, archive: Object) -> None:
        """Once for all who come: whoever cannot own it then asks for it anew."""
        async with self._lock:
            if not self._is_there:
                if not await _has(cluster, archive):
                    await cluster.create_or_adopt(archive, ARCHIVE_IDENTITY)
                self._is_there = True

    async def add(self, cluster: Kubernetes, owner: Object) -> bool:
        """Whether the ConfigMap is there, and has this owner among others."""
        uid = owner["uid"]
        self._answers.pop(uid, None)  # to one that was cancelled before it heard it
        self._waiting[uid] = owner
        async with self._lock:
            if uid not in self._answers:  # nobody who was here before has asked for it too
                self._waiting[uid] = owner
                await self._ask(cluster)
            answer = self._answers.pop(uid)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _ask(self, cluster: Kubernetes) -> None:
        """For all who wait. Who is cancelled meanwhile leaves them to the next one."""
        asked = dict(self._waiting)
        answer: bool | Exception
        try:
            answer = await self._patch(cluster, list(asked.values()))
        except Exception as exc:
            answer = exc
        self._is_there = answer is True
        for uid in asked:
            del self._waiting[uid]
            self._answers[uid] = answer

    async def _patch(self, cluster: Kubernetes, owners: list[Object]) -> bool:
        change = {"metadata": {"ownerReferences": owners}}  # beside those that are there: they are merged by uid
        try:
            found = await cluster.patch(
                CONFIG_MAPS, self._archive, self._namespace, change, content_type=STRATEGIC_PATCH, is_brief=True
            )
        except NotFound:
            return False
        return "deletionTimestamp" not in found["metadata"]


async def _has(cluster: Kubernetes, archive: Object) -> bool:
    """Whether the ConfigMap is there and stays, asked without its half a megabyte."""
    metadata = archive["metadata"]
    found = await cluster.find(CONFIG_MAPS, metadata["name"], metadata["namespace"], is_brief=True)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return False
    return other_owner(archive, found, ARCHIVE_IDENTITY) is None
