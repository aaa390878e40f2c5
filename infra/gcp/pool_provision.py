"""How does an attempt come to its node pools? It is asked what is there, and the one thing done that is due."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.node_pools import NodePools, PoolsError
from prefect_tpu.infra.gcp.pool_decision import (
    Answer,
    Create,
    Decision,
    Delete,
    Refuse,
    Resize,
    Wait,
    Wanted,
    answer_to,
    decide,
)
from prefect_tpu.infra.gcp.pool_errors import PoolFailure, Trouble
from prefect_tpu.infra.gcp.pool_request import PoolWish, node_pool

logger = logging.getLogger(__name__)


async def provision(pools: NodePools, wanted: Wanted, clock: Callable[[], float] = time.time) -> Answer:
    """Do what is due, and say how it stands. Asked again until it is ready or refused."""
    try:
        facts = await pools.look()
    except PoolsError as exc:
        return answer_to(exc.failure, wanted.wishes[0].name, wanted.wishes[0])
    except Unavailable as exc:
        return Wait(reason=str(exc))
    return await _perform(pools, decide(wanted, facts, clock()))


async def _perform(pools: NodePools, decision: Decision) -> Answer:
    match decision:
        case Create():
            return await _create(pools, decision.wish)
        case Resize():
            failure = await pools.resize(decision.wish.name, decision.wish.nodes)
            return _begun(decision.wish, failure, "gets other nodes")
        case Delete():
            return await _delete(pools, decision)
        case _:
            return decision


async def _create(pools: NodePools, wish: PoolWish) -> Answer:
    failure = await pools.create(node_pool(wish))
    if failure is None:
        logger.info("Node pool %s of %s is being made in %s.", wish.name, wish.shape.name, wish.zone)
    return _begun(wish, failure, "is being made")


def _begun(wish: PoolWish, failure: PoolFailure | None, doing: str) -> Wait | Refuse:
    return Wait(reason=f"node pool {wish.name!r} {doing}") if failure is None else answer_to(failure, wish.name, wish)


async def _delete(pools: NodePools, decision: Delete) -> Wait | Refuse:
    """What cannot be deleted now is deleted at another look, or by the reaper: the answer is the same."""
    failure = await pools.delete(decision.name)
    if failure is not None and failure.trouble not in (Trouble.BUSY, Trouble.NOT_NOW):
        logger.warning("Node pool %s could not be deleted: %s", decision.name, failure.said)
    return decision.answer
