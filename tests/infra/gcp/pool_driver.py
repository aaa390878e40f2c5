"""Processes that provide an attempt with its pools, for tests to kill."""

from __future__ import annotations

import asyncio
import os
import sys

from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.gcp.gke_access import OVERRIDE
from prefect_tpu.infra.gcp.node_pools import NodePools
from prefect_tpu.infra.gcp.patience import Patience
from prefect_tpu.infra.gcp.pool_decision import Answer, Ready, Refuse, Wanted
from prefect_tpu.infra.gcp.pool_provision import provision
from prefect_tpu.infra.gcp.pool_rate import Gates, TokenBucket
from tests.infra.gcp.pool_wishes import wanted

CLUSTER = GkeCluster(project="research", location="us-east5", cluster="training")
LOOK_SECONDS = 0.02


def node_pools(cluster: GkeCluster = CLUSTER, retry: float = 10.0) -> NodePools:
    """Of a project whose quota of requests is without end."""
    return NodePools(cluster, Patience(retry=retry), Gates(lambda: TokenBucket(1_000, 1_000)))


async def settle(asked: Wanted) -> Answer:
    """Ask until the pools serve, or the answer is another one than to wait; bounded by whoever calls."""
    pools = node_pools()
    while not isinstance(answer := await provision(pools, asked), Ready | Refuse):
        if answer.is_dry:
            return answer
        await asyncio.sleep(LOOK_SECONDS)
    return answer


def main() -> None:
    """For each line that is read, `address accelerator slices`, a process that asks there; its number is printed.

    Each is a copy of this one, which has everything loaded.
    """
    for line in sys.stdin:
        os.environ[OVERRIDE], accelerator, slices = line.split()
        child = os.fork()
        if child == 0:
            asyncio.run(settle(wanted(accelerator, int(slices))))
            os._exit(0)
        print(child, flush=True)  # noqa: T201
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
