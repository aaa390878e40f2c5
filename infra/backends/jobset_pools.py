"""Which node pools are made for an attempt, and how do they go again? Only for jobs with `make_pools`.

A pool is made for one attempt: its name follows from the attempt and its offer, so any process finds it again, and the
attempt's number is its fence. It goes when the attempt is forgotten; what no attempt ever used goes with the next
attempt's first look, at the job's end, or by the reaper.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import Slice, resolve
from prefect_tpu.infra.backends.base import Attempt, Held, Refused
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp import lifetimes, pool_names
from prefect_tpu.infra.gcp.clusters import ClusterName, GkeCluster
from prefect_tpu.infra.gcp.pod_plan import capacity_of, reservation_of
from prefect_tpu.infra.gcp.pool_facts import Pool
from prefect_tpu.infra.gcp.pool_names import Try
from prefect_tpu.infra.gcp.pool_request import PoolWish, cannot_be_made, node_pool
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer, Waiting
from prefect_tpu.infra.zones import zone_in

logger = logging.getLogger(__name__)
_TROUBLES = (PlatformError, UsageError)  # in giving back: it is said, and keeps no job from going on or from its end


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where the pools of one try are: of which cluster, in which zone of it."""

    cluster: GkeCluster
    zone: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The pools of a slice that is held, and the JobSet that lives on them once it was sent."""

    cluster: str | None
    pools: tuple[str, ...]
    jobset: str
    namespace: str
    output: str

    @classmethod
    def of(cls, held: Held) -> Kept | None:
        """None where no pool was made."""
        made = held.handle.get("made")
        return cls(**{**made, "pools": tuple(made["pools"])}) if made else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "pools": list(self.pools)}


def kept(attempt: Attempt, offer: Offer) -> Kept | None:
    """What `release` needs to know of the pools of an attempt."""
    made, pods = names(attempt, offer), attempt.job.pods
    if not made or pods is None:
        return None
    return Kept(
        cluster=offer.cluster,
        pools=made,
        jobset=layout.attempt_name(attempt.job.name, attempt.number),
        namespace=pods.namespace,
        output=attempt.output,
    )


def names(attempt: Attempt, offer: Offer) -> tuple[str, ...]:
    """Of the pools that serve the attempt by this offer; none where none is made."""
    job = attempt.job
    if job.pods is None or not job.pods.make_pools:
        return ()
    return pool_names.pool_names(_try(attempt, offer), _shape(attempt, offer), job.slices)


def requests(attempt: Attempt, offer: Offer) -> tuple[dict[str, Any], ...]:
    """What Google is asked for, as it would be now: their labels tell when they were made."""
    site = site_of(offer) if names(attempt, offer) else ""
    return () if isinstance(site, str) else tuple(map(node_pool, _wishes(attempt, offer, site.zone)))


def objection(attempt: Attempt, offer: Offer) -> str | None:
    """Why there are no such pools, by what the job says alone; None where there are, or none are wanted."""
    pods = attempt.job.pods
    if pods is None or not pods.make_pools:
        return None
    shape = _shape(attempt, offer)
    said = pods.reservation
    why = cannot_be_made(offer.accelerator, shape, capacity_of(shape, said), reservation_of(shape, said))
    site = site_of(offer)
    return why or (site if isinstance(site, str) else None)


def site_of(offer: Offer) -> Site | str:
    """Where the offer's pools are; a sentence where that cannot be told."""
    try:
        cluster = ClusterName.parse(offer.cluster).place
    except UsageError as exc:
        return str(exc)
    if cluster is None:
        named = f"cluster {offer.cluster!r}" if offer.cluster else "the kubeconfig's current cluster"
        return (
            f"Node pools are made in clusters of GKE, and {named} may be any: name it gke://project/location/cluster."
        )
    zone = offer.zone or zone_in(cluster.location)
    if zone is None:
        return f"A node pool is made in one zone, and cluster {offer.cluster} has a region: name a zone of it (--zone)."
    return Site(cluster=cluster, zone=zone)


async def ensure(attempt: Attempt, offer: Offer) -> Waiting | Refused | None:
    """Make the pools of an attempt, or find them made; None once they serve, or where none are wanted."""
    from prefect_tpu.infra.gcp import pool_decision, pool_provision
    from prefect_tpu.infra.gcp.node_pools import NodePools  # Google's client loads only for this

    if not names(attempt, offer):
        return None
    site = site_of(offer)
    if isinstance(site, str):
        return Refused(reason=site, is_barred=True)
    wanted = pool_decision.Wanted(tried=_try(attempt, offer), wishes=_wishes(attempt, offer, site.zone))
    match await pool_provision.provision(NodePools(site.cluster), wanted):
        case pool_decision.Refuse(reason=reason, is_barred=is_barred):
            return Refused(reason=reason, is_barred=is_barred)
        case pool_decision.Wait(reason=reason, is_dry=is_dry):
            return Waiting(reason=reason, is_dry=is_dry)
        case _:
            await _leave_others(attempt, site.cluster)
            return None


async def give_back(cluster: str | None, pools: tuple[str, ...], owner: str) -> None:
    """Begin to delete these pools of a job.

    owner: the hash of the job's folder.

    Raises:
        PlatformError: Google refuses, or does not answer, or the cluster does something else all the time.
    """
    from prefect_tpu.infra.gcp import pool_release

    place = ClusterName.parse(cluster).place
    if place is not None and pools:
        await _begin_to_delete(place, pool_release.of_names(pools, owner), pool_release.WAIT_SECONDS)


async def _begin_to_delete(cluster: GkeCluster, chosen: Callable[[Pool], bool], seconds: float) -> None:
    from prefect_tpu.infra.gcp import pool_release
    from prefect_tpu.infra.gcp.node_pools import NodePools

    if left := await pool_release.give_back(NodePools(cluster), chosen, seconds):
        raise PlatformError(
            f"Cluster {cluster.cluster} takes one change at a time, and does something else: it was not told yet to"
            f" delete node pools {', '.join(left)}. Try again in some minutes."
        )


async def leave(cluster: str | None, pools: tuple[str, ...], output: str) -> None:
    """The same for an attempt that is over: what cannot be given back now is left for later, and said."""
    try:
        await give_back(cluster, pools, pool_names.owner_hash(output))
    except _TROUBLES as exc:
        logger.warning("Node pools %s may be left, until `prefect-tpu reap` ends them: %s", ", ".join(pools), exc)


async def give_all_back(job: SliceJob, output: str) -> None:
    """Begin to delete whatever pools a job has, in all its clusters; what cannot be is left to the reaper, and said."""
    from prefect_tpu.infra.gcp import pool_release

    if job.pods is None or not job.pods.make_pools:
        return
    chosen = pool_release.of_owner(pool_names.owner_hash(output))
    for cluster in _clusters(job.pods):
        try:
            await _begin_to_delete(cluster, chosen, pool_release.LAST_WAIT_SECONDS)
        except _TROUBLES as exc:
            logger.warning("Node pools of job %s may be left, until `prefect-tpu reap` ends them: %s", job.name, exc)


async def give_others_back(job: SliceJob, plan: HostPlan) -> bool:
    """Begin to delete what earlier tries left, while the attempt runs; whether nothing is left of it.

    A cluster that was still making a pool when another one had a slice takes no deletion before that is made.
    """
    from prefect_tpu.infra.gcp import pool_release

    if job.pods is None or not job.pods.make_pools:
        return True
    here, is_tidy = ClusterName.parse(plan.cluster).place, True
    for cluster in _clusters(job.pods):
        lives = plan.pools if cluster == here else ()
        chosen = pool_release.up_to(pool_names.owner_hash(plan.output), plan.attempt, but=lives)
        try:
            await _begin_to_delete(cluster, chosen, seconds=0)
        except _TROUBLES as exc:
            logger.info("What earlier tries left in cluster %s is given back later: %s", cluster.cluster, exc)
            is_tidy = False
    return is_tidy


async def _leave_others(attempt: Attempt, cluster: GkeCluster) -> None:
    """Once a slice is had in one cluster, nothing is kept of earlier tries in the others."""
    from prefect_tpu.infra.gcp import pool_release

    assert attempt.job.pods is not None, "only jobs with pods have pools"
    chosen = pool_release.up_to(pool_names.owner_hash(attempt.output), attempt.number)
    for other in _clusters(attempt.job.pods):
        if other != cluster:
            try:
                await _begin_to_delete(other, chosen, seconds=0)
            except _TROUBLES as exc:
                logger.warning("What was tried in cluster %s may be left there for now: %s", other.cluster, exc)


def _clusters(pods: PodSettings) -> tuple[GkeCluster, ...]:
    found = (ClusterName.parse(name).place for name in (pods.cluster, *pods.fallback_clusters))
    return tuple(dict.fromkeys(place for place in found if place is not None))


def _try(attempt: Attempt, offer: Offer) -> Try:
    return Try(
        job=attempt.job.name,
        attempt=attempt.number,
        output=attempt.output,
        accelerator=offer.accelerator,
        zone=offer.zone,
    )


def _shape(attempt: Attempt, offer: Offer) -> Slice:
    return resolve(offer.accelerator, dialect=attempt.job.dialect)


def _wishes(attempt: Attempt, offer: Offer, zone: str) -> tuple[PoolWish, ...]:
    job, shape, tried = attempt.job, _shape(attempt, offer), _try(attempt, offer)
    assert job.pods is not None, "only jobs with pods have pools"
    now = time.time()
    living = lifetimes.pool_lifetime(job.provision_timeout, job.deadline, job.grace)
    count = pool_names.pool_count(shape, job.slices)
    return tuple(
        PoolWish(
            name=name,
            labels=tried.labels(now, now + living),
            shape=shape,
            nodes=shape.hosts * job.slices // count,
            zone=zone,
            capacity=capacity_of(shape, job.pods.reservation),
            reservation=reservation_of(shape, job.pods.reservation),
            service_account=job.pods.node_service_account,
            run_seconds=None if job.deadline is None else job.deadline + job.grace + lifetimes.MARGIN_SECONDS,
        )
        for name in pool_names.pool_names(tried, shape, job.slices)
    )
