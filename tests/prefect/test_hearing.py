"""Whoever listens for runs may be told to end at any moment: no connection of it stays open."""

from __future__ import annotations

import gc

import anyio
import pytest
from pool_in_process import new_scene
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import WorkPool
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect_server import Server

from prefect_tpu.flows.work_pool.hearing import hear_of_runs

pytestmark = [pytest.mark.prefect, pytest.mark.timeout(300)]
MOMENTS = [0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.5]  # seconds: while it connects, and after


def test_a_listener_that_is_cut_short_leaves_no_socket_open(server: Server) -> None:
    """Its loop ends right after it, as that of a worker does that is told to end."""

    async def new_pool() -> WorkPool:
        async with get_client() as client:
            return (await new_scene(client, server.folder)).pool

    async def cut_short(pool: WorkPool, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await hear_of_runs(pool, lambda run: None)

    with temporary_settings({PREFECT_API_URL: server.environment["PREFECT_API_URL"]}):
        pool = anyio.run(new_pool)
        for seconds in MOMENTS:
            anyio.run(cut_short, pool, seconds)
    gc.collect()  # what was left open says so now, and every warning is an error
