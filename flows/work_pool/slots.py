"""How does a run keep the place that its deployment's concurrency limit gave it, while it waits hours for a slice?

Prefect leases the place when a worker takes the run, for some minutes, and the engine renews it once it runs. Nobody
would in between: another run would get the place, and this one would be cancelled the moment it starts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, StateType

log = logging.getLogger(__name__)
LEASE_SECONDS = 300.0
RENEW_SECONDS = 60.0
TICK_SECONDS = 5.0


class Slots:
    """Renews the leases of runs that wait, each now and then, the first time at once."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._due: dict[UUID, float] = {}

    async def renew(self, runs: Iterable[FlowRun]) -> None:
        """Those of these runs that wait and have a lease. One that is gone stays gone: the run may get a new one."""
        now = time.monotonic()
        leases = {lease for run in runs if (lease := lease_of(run)) is not None}
        self._due = {lease: self._due.get(lease, now) for lease in leases}
        for lease in [lease for lease, due in self._due.items() if due <= now]:
            self._due[lease] = now + RENEW_SECONDS
            try:
                await self._client.renew_concurrency_lease(lease, LEASE_SECONDS)
            except httpx.HTTPError as exc:
                log.info("Lease %s of a concurrency limit is not renewed: %s", lease, exc)


def lease_of(run: FlowRun) -> UUID | None:
    """Of a run that waits for its slice; None where it has none, or runs."""
    if run.state is None or run.state.type is not StateType.PENDING:
        return None
    return run.state.state_details.deployment_concurrency_lease_id
