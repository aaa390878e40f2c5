"""Whoever listens for runs may be told to end at any moment: no connection of it stays open."""

from __future__ import annotations

import gc
from uuid import UUID

import anyio
import pytest
from pool_in_process import new_scene
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import WorkPool
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Crashed
from prefect_server import Server

from prefect_tpu.flows.work_pool.hearing import hear_of_runs

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
PATIENCE = 60.0
MOMENTS = [0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5]  # seconds: while it connects, and after


def test_what_is_heard_of_a_run_says_in_which_state_it_is(server: Server) -> None:
    """So whoever moved it there has nothing to ask."""

    async def story() -> None:
        heard: dict[UUID, UUID] = {}
        async with get_client() as client, anyio.create_task_group() as tasks:
            scene = await new_scene(client, server.folder)
            run = await scene.run()
            tasks.start_soon(hear_of_runs, scene.pool, heard.__setitem__)
            with anyio.fail_after(PATIENCE):
                while run.id not in heard:  # nothing is heard of what came before the listener
                    moved = await client.set_flow_run_state(run.id, Crashed(), force=True)
                    await anyio.sleep(MOMENTS[-1])
            states = [state.id for state in await client.read_flow_run_states(run.id)]
            assert heard[run.id] in states and moved.state is not None and moved.state.id in states
            tasks.cancel_scope.cancel()

    with temporary_settings({PREFECT_API_URL: server.environment["PREFECT_API_URL"]}):
        anyio.run(story)


def test_a_listener_that_is_cut_short_leaves_no_socket_open(server: Server) -> None:
    """Its loop ends right after it, as that of a worker does that is told to end."""

    async def new_pool() -> WorkPool:
        async with get_client() as client:
            return (await new_scene(client, server.folder)).pool

    async def cut_short(pool: WorkPool, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await hear_of_runs(pool, lambda run, state: None)

    with temporary_settings({PREFECT_API_URL: server.environment["PREFECT_API_URL"]}):
        pool = anyio.run(new_pool)
        for seconds in MOMENTS:
            anyio.run(cut_short, pool, seconds)
    gc.collect()  # what was left open says so now, and every warning is an error
