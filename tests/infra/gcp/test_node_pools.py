"""Google's API of node pools, asked as it is: what it answers, and that nothing is sent that nobody waits for."""

from __future__ import annotations

import threading

import anyio
import container
import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.gcp.node_pools import NodePools, PoolsError
from prefect_tpu.infra.gcp.pool_decision import Ready
from prefect_tpu.infra.gcp.pool_errors import Trouble
from prefect_tpu.infra.gcp.pool_rate import Gates, TokenBucket
from prefect_tpu.infra.gcp.pool_request import node_pool
from tests.infra.gcp.pool_driver import CLUSTER, node_pools
from tests.infra.gcp.pool_wishes import wanted
from tests.infra.gcp.pools_at_google import asked_for, settled, status

pytestmark = pytest.mark.anyio
TWO = wanted(slices=2)


async def test_without_the_right_to_look_nothing_is_known(google: container.Google) -> None:
    google.world.denied.add("container.clusters.get")
    with pytest.raises(PoolsError, match="container.clusters.get"):
        await node_pools().look()


async def test_what_google_does_not_take_is_refused_in_its_words(google: container.Google) -> None:
    body = node_pool(wanted().wishes[0])
    body["placementPolicy"]["tpuTopology"] = "3x3"
    failure = await node_pools().create(body)
    assert failure is not None and failure.trouble is Trouble.TOPOLOGY


async def test_a_cluster_that_is_not_there_is_said(google: container.Google) -> None:
    pools = node_pools(GkeCluster(project="p", location="us-east5", cluster="none"))
    assert await pools.delete("pool") is None  # nothing is there to delete
    failure = await pools.create(node_pool(wanted().wishes[0]))
    assert failure is not None and failure.trouble is Trouble.GONE


async def test_another_change_under_way_is_waited_for(google: container.Google) -> None:
    google.world.delays.making = 1.0
    first, second = TWO.wishes
    pools = node_pools()
    assert await pools.create(node_pool(first)) is None
    failure = await pools.create(node_pool(second))
    assert failure is not None and failure.trouble is Trouble.BUSY
    assert await settled(TWO) == Ready()


async def test_a_change_whose_turn_comes_too_late_is_not_sent(google: container.Google) -> None:
    failure = await NodePools(CLUSTER, turn_seconds=0.0).create(node_pool(wanted().wishes[0]))
    assert failure is not None and failure.trouble is Trouble.BUSY
    assert asked_for(google, "nodePools.create") == []


async def test_who_is_cancelled_leaves_no_change_behind_that_is_still_to_come(google: container.Google) -> None:
    waits, comes = threading.Event(), threading.Event()

    def wait(_: float) -> None:
        waits.set()
        comes.wait()

    pools = NodePools(CLUSTER, gates=Gates(lambda: TokenBucket(0, 1_000, sleep=wait)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pools.create, node_pool(wanted().wishes[0]))
        await anyio.to_thread.run_sync(waits.wait)
        tasks.cancel_scope.cancel()
        comes.set()
    assert set(status(google)) == wanted().names


async def test_a_plain_address_that_is_not_of_this_machine_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(container.OVERRIDE, "http://10.0.0.1:80")
    with pytest.raises(UsageError, match="name an https address"):
        await node_pools().look()
