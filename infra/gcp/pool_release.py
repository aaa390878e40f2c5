"""How do node pools that nobody needs any more go? Their deletion is begun, and not waited for. Safe to repeat.

A cluster takes one change at a time, so beginning it may take as long as what the cluster does now: that is waited for,
within a bound. What is left then is found again: by whoever provides the next attempt, at the job's end, and by
`prefect-tpu reap`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.node_pools import NodePools
from prefect_tpu.infra.gcp.pool_facts import ClusterPools, Pool

logger = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
WAIT_SECONDS = 30.0  # between two attempts: the next one gives back what is left
LAST_WAIT_SECONDS = 60.0  # at the job's end: nobody of it comes back
Chosen = Callable[[Pool], bool]


def of_names(names: Iterable[str], owner: str) -> Chosen:
    """These, as far as they are a certain job's. owner: the hash of its folder."""
    wanted = frozenset(names)
    return lambda pool: pool.name in wanted and pool.is_of(owner)


def of_owner(owner: str) -> Chosen:
    """All that a job has."""
    return lambda pool: pool.is_of(owner)


def up_to(owner: str, attempt: int, but: Collection[str] = ()) -> Chosen:
    """What a job had for an attempt and those before it; a later one's is never touched for an earlier one's sake.

    but: what the attempt lives on.
    """
    return lambda pool: pool.is_of(owner, up_to=attempt) and pool.name not in but


async def give_back(
    pools: NodePools, chosen: Chosen, seconds: float = WAIT_SECONDS, pause: float = LOOK_SECONDS
) -> tuple[str, ...]:
    """Begin to delete the chosen pools; the names of those for which that could not be begun within so many seconds.

    Raises:
        PlatformError: Google refuses, or does not answer for as long.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    while True:
        try:
            left = await _begin_one(pools, chosen)
        except Unavailable:
            if clock() + pause > end:
                raise
        else:
            if not left or clock() + pause > end:
                return left
        await asyncio.sleep(pause)


async def _begin_one(pools: NodePools, chosen: Chosen) -> tuple[str, ...]:
    """Begin to delete the first of them, if the cluster does nothing else; the names of those that are left."""
    facts = await pools.look()
    left = tuple(_left(facts, chosen))
    has_begun = bool(left) and facts.running is None and await _delete(pools, left[0])
    return left[1:] if has_begun else left


def _left(facts: ClusterPools, chosen: Chosen) -> Iterator[str]:
    return (name for name, pool in sorted(facts.pools.items()) if chosen(pool) and not pool.is_leaving)


async def _delete(pools: NodePools, name: str) -> bool:
    """Whether its deletion has begun. Raises `PlatformError` where Google refuses for good."""
    failure = await pools.delete(name)
    if failure is None:
        logger.info("Node pool %s is being deleted.", name)
        return True
    if failure.trouble.is_final:
        raise PlatformError(
            f"Node pool {name!r} cannot be deleted: {failure.said.rstrip('.')}. It costs money until somebody deletes"
            f" it: gcloud container node-pools delete {name} --cluster {pools.cluster.cluster}"
            f" --location {pools.cluster.location} --project {pools.cluster.project}"
        )
    return False
