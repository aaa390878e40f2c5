"""How a pool's runs are asked for: page by page, so that a server that is asked for many has time for others."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from uuid import uuid4

import anyio
import pytest
from faults import Traffic
from faulty import Faulty
from pool_in_process import Scene, anything, new_scene
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed, Pending
from prefect_server import Server

from prefect_tpu.flows.work_pool.run_reading import PAGE, REST_SECONDS, Runs

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]


def play(server: Server, traffic: Traffic, story: Callable[[Scene], Awaitable[None]]) -> None:
    async def within() -> None:
        async with get_client() as client:
            await story(await new_scene(client, server.folder))

    url = server.environment["PREFECT_API_URL"].removesuffix("/api")
    with Faulty(url, traffic, name="prefect") as way, temporary_settings({PREFECT_API_URL: f"{way.url}/api"}):
        anyio.run(within)


def pages(traffic: Traffic) -> int:
    return sum(asked.target == "/api/flow_runs/filter" for asked in traffic.asked)


def test_all_runs_are_found_and_the_server_rests_between_two_pages(server: Server) -> None:
    traffic = Traffic()

    async def story(scene: Scene) -> None:
        made = [await scene.client.create_flow_run(anything, state=Pending(), work_pool_name=scene.pool.name)
                for _ in range(PAGE + 1)]  # fmt: skip
        runs, ids = Runs(scene.client, scene.pool.id), {run.id for run in made}
        begun = time.monotonic()
        assert {run.id for run in await runs.at_work()} == ids
        assert time.monotonic() - begun >= REST_SECONDS and pages(traffic) == 2
        gone = uuid4()
        found = await runs.named([*sorted(ids)[:-2], gone])
        assert pages(traffic) == 3, "of those that are named nobody asks for a page that must be empty"
        assert found.keys() == {*sorted(ids)[:-2], gone} and found[gone] is None
        await scene.client.set_flow_run_state(made[0].id, Crashed(), force=True)
        assert [run.id for run in await runs.crashed()] == [made[0].id]

    play(server, traffic, story)
