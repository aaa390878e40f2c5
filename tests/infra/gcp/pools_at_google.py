"""What tests do to node pools of a fake of Google's API, and what they see of them."""

from __future__ import annotations

import time

import anyio
import container

from prefect_tpu.infra.gcp.pool_decision import Answer, Wanted
from prefect_tpu.infra.gcp.pool_provision import provision
from tests.infra.gcp.pool_driver import CLUSTER, node_pools, settle

NAME = CLUSTER.resource_name


async def settled(asked: Wanted) -> Answer:
    with anyio.fail_after(30):
        return await settle(asked)


async def looked(asked: Wanted, *, later: float = 0.0) -> Answer:
    """One look, as if it came so much later."""
    return await provision(node_pools(), asked, lambda: time.time() + later)


def status(google: container.Google) -> dict[str, str]:
    return {name.rpartition("/")[2]: pool.status.name for name, pool in google.pools.items()}


def asked_for(google: container.Google, called: str) -> list[bytes]:
    return [request.body for request in google.asked if request.called == called]


async def gone(google: container.Google, *but: str) -> None:
    with anyio.fail_after(30):
        while set(status(google)) != set(but):
            await anyio.sleep(0.02)
