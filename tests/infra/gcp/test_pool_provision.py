"""Node pools of a cluster whose API is asked as Google's is: made once, whatever goes wrong meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import container
import pytest
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.pool_decision import Answer, Ready, Refuse, Wait
from prefect_tpu.infra.gcp.pool_provision import provision
from prefect_tpu.infra.gcp.pool_release import give_back, of_names
from prefect_tpu.infra.gcp.pool_state import FRESH_SECONDS
from tests.infra.gcp.pool_driver import node_pools
from tests.infra.gcp.pool_wishes import wanted
from tests.infra.gcp.pools_at_google import NAME, asked_for, gone, looked, settled, status

pytestmark = pytest.mark.anyio
TWO = wanted(slices=2)
ROOT = Path(__file__).parents[3]


async def test_pools_are_made_and_found_again_by_whoever_asks(google: container.Google) -> None:
    assert await settled(TWO) == Ready()
    assert status(google) == dict.fromkeys(TWO.names, "RUNNING")
    assert await looked(TWO) == Ready()
    assert len(asked_for(google, "nodePools.create")) == 2


@pytest.mark.parametrize(
    "accelerator",
    [
        "v6e-16",
        "v6e-8",
        "v5p-2x2x4:spot",
        "v6e-16:reserved=block",
        "v6e-16:flex-start",
        "v6e-16:queue",
        "l4x4",
        "v5e-4",
    ],
)
async def test_every_kind_of_pool(google: container.Google, accelerator: str) -> None:
    assert await settled(wanted(accelerator)) == Ready()


async def test_a_workload_policy_has_to_be_there(google: container.Google) -> None:
    asked = wanted("tpu7x-16")
    answer = await settled(asked)
    assert isinstance(answer, Refuse)
    assert "create workload-policy prefect-tpu-2x2x2" in answer.reason
    google.world.policies["prefect-tpu-2x2x2"] = "2x2x2"
    assert await settled(asked) == Ready()


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_reply_may_be_lost(google: container.Google, is_done: bool) -> None:
    with google.trouble(strikes=lambda request: request.called == "nodePools.create", is_done=is_done, times=1) as lost:
        assert await settled(TWO) == Ready()
    assert lost.struck == 1
    assert status(google) == dict.fromkeys(TWO.names, "RUNNING")


@pytest.mark.parametrize("code", [429, 500, 503, 504])
@pytest.mark.parametrize("called", ["nodePools.list", "operations.list", "nodePools.create"])
async def test_an_answer_may_fail(google: container.Google, code: int, called: str) -> None:
    with google.trouble(strikes=lambda request: request.called == called, code=code, times=1) as failed:
        assert await settled(wanted()) == Ready()
    assert failed.struck == 1
    assert len(asked_for(google, "nodePools.create")) <= 2


async def test_an_api_that_is_away_is_waited_for(google: container.Google) -> None:
    impatient = node_pools(retry=0.1)
    with google.trouble(code=503):
        answer = await provision(impatient, TWO)
        assert isinstance(answer, Wait) and not answer.is_dry
        assert "currently unavailable" in answer.reason
        with pytest.raises(Unavailable, match="gke://research/us-east5/training"):
            await impatient.look()
    assert await settled(TWO) == Ready()


async def test_a_stockout_is_dry_and_what_it_left_goes_before_it_is_tried_again(google: container.Google) -> None:
    (asked,) = wanted().names
    google.dry(zone="us-east5-b")
    answer = await settled(wanted())
    assert isinstance(answer, Wait) and answer.is_dry
    assert "does not have enough resources" in answer.reason
    assert len(asked_for(google, "nodePools.delete")) == 1
    await gone(google)
    again = await looked(wanted())
    assert isinstance(again, Wait) and again.is_dry and len(asked_for(google, "nodePools.create")) == 1
    google.wet()
    assert isinstance(await looked(wanted(), later=FRESH_SECONDS), Wait)
    assert await settled(wanted()) == Ready()
    assert status(google) == {asked: "RUNNING"}


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize(("chips", "is_final"), [(0, True), (8, False)])
async def test_no_quota_at_all_is_told_from_quota_in_use(
    google: container.Google, chips: int, is_final: bool, is_early: bool
) -> None:
    google.world.chips["*"], google.world.is_quota_early = chips, is_early
    answer = await settled(wanted())
    assert isinstance(answer, Refuse) == is_final
    assert "quota" in answer.reason.lower()
    assert is_final or answer.is_dry


@pytest.mark.parametrize(
    "permission", ["container.clusters.update", "container.clusters.get", "container.operations.list"]
)
async def test_a_right_that_is_missing_is_named(google: container.Google, permission: str) -> None:
    google.world.denied.add(permission)
    answer = await settled(wanted())
    assert isinstance(answer, Refuse) and answer.is_barred
    assert permission in answer.reason


async def test_done_with_an_error_is_an_error_of_its_kind(google: container.Google) -> None:
    google.fail("PERMISSION_DENIED", "NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS", "nodes may not write logs")
    answer = await settled(wanted())
    assert isinstance(answer, Refuse) and answer.is_barred and "nodes may not write logs" in answer.reason
    await gone(google)


async def test_two_that_ask_for_the_same_at_once_make_it_once(google: container.Google) -> None:
    answers: list[Answer] = []

    async def ask() -> None:
        answers.append(await settled(TWO))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
    assert answers == [Ready()] * 3
    assert status(google) == dict.fromkeys(TWO.names, "RUNNING")


async def test_a_pool_that_is_somebody_elses_is_left_alone(google: container.Google) -> None:
    (name,) = wanted().names
    google.add_pool(NAME, NodePool(name=name, status="ERROR", config={"labels": {"team": "other"}}))
    assert isinstance(await settled(wanted()), Refuse)
    assert await give_back(node_pools(), of_names([name], wanted().tried.owner)) == ()
    assert status(google) == {name: "ERROR"}


async def test_a_pool_of_single_hosts_is_resized(google: container.Google) -> None:
    assert await settled(wanted("v6e-8", slices=2)) == Ready()
    assert await settled(wanted("v6e-8", slices=3)) == Ready()
    assert len(asked_for(google, "nodePools.setSize")) == 1
    (pool,) = google.pools.values()
    assert pool.initial_node_count == 3


async def test_the_next_attempt_gives_back_what_the_one_before_it_had(google: container.Google) -> None:
    assert await settled(wanted(attempt=1)) == Ready()
    assert await settled(wanted(attempt=2)) == Ready()
    await gone(google, *wanted(attempt=2).names)


@pytest.fixture(scope="module")
def ask() -> Iterator[Callable[[str], int]]:
    """Begins a process that asks for pools, once the one before it is over; its number."""
    command = [sys.executable, "-m", "tests.infra.gcp.pool_driver"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    begun = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert begun.stdin and begun.stdout
    told, heard = begun.stdin, begun.stdout

    def begin(line: str) -> int:
        told.write(f"{line}\n")
        told.flush()
        return int(heard.readline())

    yield begin
    told.close()
    heard.close()
    assert begun.wait() == 0


class Killer:
    """Kills a process that asks for something the nth time, before there is an answer."""

    def __init__(self, called: str, nth: int) -> None:
        self.called, self.nth, self.process = called, nth, 0
        self.began, self.is_done = threading.Event(), threading.Event()
        self._seen = 0

    def strikes(self, request: Any) -> bool:
        self.began.wait()
        self._seen += request.called == self.called
        is_it = request.called == self.called and self._seen == self.nth and not self.is_done.is_set()
        if is_it:
            os.kill(self.process, signal.SIGKILL)
            self.is_done.set()
        return is_it


MOMENTS = [
    ("nodePools.list", 1, True),
    ("operations.list", 1, True),
    ("nodePools.delete", 1, True),
    ("nodePools.create", 1, True),
    ("nodePools.create", 1, False),
    ("nodePools.create", 2, True),
    ("nodePools.create", 2, False),
]


@pytest.mark.parametrize(("called", "nth", "is_done"), MOMENTS)
async def test_whoever_provides_may_be_killed_at_any_moment(
    google: container.Google, ask: Callable[[str], int], called: str, nth: int, is_done: bool
) -> None:
    """An earlier attempt's pool is given back first, then two are made; another process goes on, and none is twice."""
    assert await settled(wanted(attempt=1)) == Ready()
    killer = Killer(called, nth)
    with google.trouble(strikes=killer.strikes, is_done=is_done):
        killer.process = await anyio.to_thread.run_sync(ask, f"{google.url} v6e-16 2")
        killer.began.set()
        assert await anyio.to_thread.run_sync(killer.is_done.wait, 60)
    assert await settled(TWO) == Ready()
    await gone(google, *TWO.names)
    lost = called == "nodePools.create" and not is_done
    assert len(asked_for(google, "nodePools.create")) - lost == 3
