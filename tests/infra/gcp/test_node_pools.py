"""Node pools of a cluster whose API is asked as Google's is: made once, given back, whatever goes wrong meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import container
import pytest
from google.cloud.container_v1 import NodePool

from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp.clusters import GkeCluster
from prefect_tpu.infra.gcp.errors import Unavailable
from prefect_tpu.infra.gcp.node_pools import NodePools, PoolsError
from prefect_tpu.infra.gcp.pool_decision import Answer, Ready, Refuse, Wait, Wanted
from prefect_tpu.infra.gcp.pool_errors import Trouble
from prefect_tpu.infra.gcp.pool_provision import provision
from prefect_tpu.infra.gcp.pool_rate import Gates, TokenBucket
from prefect_tpu.infra.gcp.pool_release import give_back, of_names, of_owner
from prefect_tpu.infra.gcp.pool_request import node_pool
from prefect_tpu.infra.gcp.pool_state import FRESH_SECONDS
from tests.infra.gcp.pool_driver import CLUSTER, node_pools, settle
from tests.infra.gcp.pool_wishes import wanted

pytestmark = pytest.mark.anyio
NAME = CLUSTER.resource_name
TWO = wanted(slices=2)
ROOT = Path(__file__).parents[3]


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[container.Google]:
    with container.running() as fake:
        fake.add_cluster(NAME)
        for name, value in fake.environment.items():
            monkeypatch.setenv(name, value)
        yield fake


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


async def test_an_answer_that_is_none_of_googles_is_as_none(google: container.Google, httpd: str) -> None:
    with pytest.raises(Unavailable):
        await node_pools(retry=0.1).look()


@pytest.fixture
def httpd(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A proxy that answers everything with a page of its own."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>please log in</html>")

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setenv(container.OVERRIDE, f"http://127.0.0.1:{server.server_port}")
    yield "page"
    server.shutdown()
    thread.join()
    server.server_close()


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


async def test_done_with_an_error_is_an_error_of_its_kind(google: container.Google) -> None:
    google.fail("PERMISSION_DENIED", "NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS", "nodes may not write logs")
    answer = await settled(wanted())
    assert isinstance(answer, Refuse) and answer.is_barred and "nodes may not write logs" in answer.reason
    await gone(google)


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


async def test_a_plain_address_that_is_not_of_this_machine_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(container.OVERRIDE, "http://10.0.0.1:80")
    with pytest.raises(UsageError, match="name an https address"):
        await node_pools().look()


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
