"""What lives as long as a worker does? The fleet that drives jobs, and the reconciler that says which."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import WorkPool

from prefect_tpu.infra.launcher.fleet import Fleet
from prefect_tpu.tasks.chip_limits import ChipLimits

if TYPE_CHECKING:
    from prefect_tpu.flows.work_pool.reconciler import Reconciler

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.2  # for the pool, which the worker learns of when the server first answers
REST_SECONDS = 5.0  # after an error of ours, before the reconciler begins anew
LEAVE_SECONDS = 25.0  # to let go of all jobs; their leases lapse by themselves where it takes longer


class Crew:
    """A worker's fleet and its reconciler.

    Args:
        client: of the worker.
        name: of the worker.
        find_pool: the worker's pool, once it knows it.
        fleet: what drives jobs.
    """

    def __init__(
        self, client: PrefectClient, name: str, find_pool: Callable[[], WorkPool | None], fleet: Fleet
    ) -> None:
        self.fleet = fleet
        self._client, self._name, self._find_pool = client, name, find_pool
        self._reconciler: Reconciler | None = None
        self._early: list[str] = []

    def nudge(self, folder: str) -> None:
        """A job was just written down there."""
        if self._reconciler is None:
            self._early.append(folder)
        else:
            self._reconciler.nudge(folder)

    async def reconcile(self) -> None:
        """For ever. An error of ours ends no worker: what was not done is seen again by the next look."""
        from prefect_tpu.flows.work_pool.reconciler import Reconciler  # only a worker that runs needs what it loads

        while (pool := self._find_pool()) is None:
            await anyio.sleep(LOOK_SECONDS)
        while True:
            self._reconciler = Reconciler(self._client, pool, self.fleet, self._name)
            while self._early:
                self._reconciler.nudge(self._early.pop())
            try:
                await self._reconciler.run()
            except Exception:
                log.exception("The reconciler of work pool %r broke; it begins anew.", pool.name)
            await self.fleet.let_go()  # its drives would speak to nobody: the next one adopts their jobs
            await anyio.sleep(REST_SECONDS)


@asynccontextmanager
async def at_work(client: PrefectClient, name: str, find_pool: Callable[[], WorkPool | None]) -> AsyncIterator[Crew]:
    """A crew that works as long as the block runs; then it lets go of all jobs, whose hosts run on."""
    async with anyio.create_task_group() as tasks:
        limits = ChipLimits(lambda: nullcontext(client))
        crew = Crew(client, name, find_pool, Fleet(tasks, permits=limits))
        reconciling = anyio.CancelScope()
        tasks.start_soon(_reconcile, crew, reconciling)
        try:
            yield crew
        finally:
            reconciling.cancel()  # first: it would begin each drive again
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await crew.fleet.leave()
            tasks.cancel_scope.cancel()


async def _reconcile(crew: Crew, scope: anyio.CancelScope) -> None:
    with scope:
        await crew.reconcile()
