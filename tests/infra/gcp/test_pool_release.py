"""Node pools go again: each is begun to be deleted, whatever goes wrong meanwhile, and others' never."""

from __future__ import annotations

import container
import pytest
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.pool_decision import Ready
from prefect_tpu.infra.gcp.pool_release import give_back, of_names, of_owner
from tests.infra.gcp.pool_driver import node_pools
from tests.infra.gcp.pool_wishes import wanted
from tests.infra.gcp.pools_at_google import NAME, asked_for, gone, looked, settled, status

pytestmark = pytest.mark.anyio
TWO = wanted(slices=2)


async def test_pools_are_given_back_one_after_the_other(google: container.Google) -> None:
    assert await settled(TWO) == Ready()
    google.add_pool(NAME, NodePool(name="default-pool", status="RUNNING"))
    owner = TWO.tried.owner
    assert await give_back(node_pools(), of_owner(owner), pause=0.02) == ()
    await gone(google, "default-pool")
    assert await give_back(node_pools(), of_owner(owner), pause=0.02) == ()
    assert len(asked_for(google, "nodePools.delete")) == 2


async def test_a_cluster_that_stays_busy_is_not_waited_for_without_end(google: container.Google) -> None:
    assert await settled(TWO) == Ready()
    google.world.delays.deleting = 60
    left = await give_back(node_pools(), of_owner(TWO.tried.owner), seconds=0.1, pause=0.02)
    assert left == (TWO.wishes[1].name,)


async def test_an_api_that_is_away_while_pools_are_given_back_is_asked_again(google: container.Google) -> None:
    assert await settled(wanted()) == Ready()
    owner, impatient = wanted().tried.owner, node_pools(retry=0.0)
    with google.trouble(code=503, times=2) as away:
        assert await give_back(impatient, of_owner(owner), pause=0.02) == ()
    assert away.struck == 2
    await gone(google)
    with google.trouble(code=503), pytest.raises(Unavailable):
        await give_back(impatient, of_owner(owner), seconds=0.1, pause=0.02)


async def test_a_pool_that_is_being_made_is_given_back_once_that_is_over(google: container.Google) -> None:
    (name,) = wanted().names
    await looked(wanted())
    assert status(google) == {name: "PROVISIONING"}
    assert await give_back(node_pools(), of_names([name], wanted().tried.owner), pause=0.02) == ()
    await gone(google)


async def test_what_may_not_be_deleted_is_said_with_the_command_for_somebody_who_may(google: container.Google) -> None:
    assert await settled(wanted()) == Ready()
    google.world.denied.add("container.clusters.update")
    with pytest.raises(PlatformError, match="money until somebody deletes it: gcloud container node-pools delete"):
        await give_back(node_pools(), of_owner(wanted().tried.owner))


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_deletion_whose_reply_is_lost_is_a_deletion(google: container.Google, is_done: bool) -> None:
    assert await settled(wanted()) == Ready()
    with google.trouble(strikes=lambda request: request.called == "nodePools.delete", is_done=is_done, times=1):
        assert await give_back(node_pools(), of_owner(wanted().tried.owner), pause=0.02) == ()
    await gone(google)
