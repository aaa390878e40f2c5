"""Which node pools of ours are still in a cluster, whether or not anything else of their attempts is? For the reaper.

A pool tells its job, attempt and deadline by its labels, so it is found also where the job's folder is gone. Whose
folder it is, only a hash tells: it is known of jobs below the output that is asked about, and of no others. Of those,
a pool past its deadline is all that may be ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Handle, Place, Remnant
from prefect_tpu.infra.backends.jobset_remnants import passing_over
from prefect_tpu.infra.gcp.clusters import ClusterName
from prefect_tpu.infra.gcp.pool_facts import Pool
from prefect_tpu.infra.gcp.pool_names import Owner, owner_hash
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.policy.offers import offers_of
from prefect_tpu.infra.storage import open_storage


@dataclass(frozen=True, slots=True, kw_only=True)
class LonePool:
    """A pool by itself: a handle, read. owner: the hash of the job's folder."""

    cluster: str | None
    pool: str
    owner: str

    @property
    def handle(self) -> Handle:
        return {"backend": "jobset", "cluster": self.cluster, "pool": self.pool, "owner": self.owner}


def lone_pool(handle: Handle) -> LonePool | None:
    """None where the handle is an attempt's."""
    if "pool" not in handle:
        return None
    return LonePool(cluster=handle["cluster"], pool=handle["pool"], owner=handle["owner"])


async def find_all(
    output: str, jobs: Sequence[SliceJob], places: Sequence[Place], jobsets: Sequence[Remnant], seen: Set[Place]
) -> list[Remnant]:
    """Those of all clusters where the jobs may have any, and of those that are named.

    jobsets: that were found of these jobs. seen: where these were looked for.
    """
    making = {offer.cluster for job in jobs if job.pods and job.pods.make_pools for offer in offers_of(job)}
    named, found = {cluster for cluster, _ in places}, list[Remnant]()
    for cluster in sorted(making | named, key=str):
        with passing_over(cluster, is_extra=bool(places) and cluster not in named):
            pools = await find(cluster, output, [job.name for job in jobs])
            looked_at = {job.name for job in jobs if job.pods and (cluster, job.pods.namespace) in seen}
            found += told_apart(pools, jobsets, looked_at)
    return found


async def find(cluster: str | None, output: str, jobs: Sequence[str]) -> list[Remnant]:
    """Pools of ours that nobody deletes yet; none where the cluster is not known to be one of GKE."""
    from prefect_tpu.infra.gcp.node_pools import NodePools  # Google's client loads only for this

    place = ClusterName.parse(cluster).place
    if place is None:
        return []
    facts = await NodePools(place).look()
    return list(remnants(facts.pools.values(), cluster, Below(output, jobs), time.time()))


class Below:
    """The folders of jobs below an output, by their hashes; also of jobs that are gone, once they are named."""

    def __init__(self, output: str, jobs: Iterable[str]) -> None:
        self._storage = open_storage(output)
        self._folders = {owner_hash(folder): folder for folder in map(self._folder, jobs)}

    def folder(self, owner: Owner) -> str | None:
        """None where it is not below."""
        if owner.owner in self._folders:
            return self._folders[owner.owner]
        if not layout.JOB_NAME.fullmatch(owner.job):
            return None
        folder = self._folder(owner.job)
        return folder if owner_hash(folder) == owner.owner else None

    def _folder(self, job: str) -> str:
        return self._storage.inside(job).url


def remnants(pools: Iterable[Pool], cluster: str | None, below: Below, now: float) -> Iterator[Remnant]:
    """Those of ours, in words."""
    for pool in sorted(pools, key=lambda pool: pool.name):
        owner = pool.owner
        if owner is None or pool.is_leaving:
            continue
        yield Remnant(
            output=below.folder(owner),
            attempt=owner.attempt,
            what=f"node pool {pool.name!r} of cluster {cluster}",
            age=now - owner.made,
            handle=LonePool(cluster=cluster, pool=pool.name, owner=owner.owner).handle,
            job=owner.job,
            comes_first=True,
            overdue=now - owner.deadline if now > owner.deadline else None,
        )


def told_apart(pools: Iterable[Remnant], others: Iterable[Remnant], looked_at: Set[str]) -> list[Remnant]:
    """The same, and of which of them nothing runs any more.

    others: JobSets. looked_at: the names of the jobs all of whose JobSets in the pools' cluster are among them.
    """
    live = {(other.output, other.attempt) for other in others if not other.is_over}
    return [
        replace(
            pool, is_over=pool.output is not None and pool.job in looked_at and (pool.output, pool.attempt) not in live
        )
        for pool in pools
    ]
