"""Does somebody want this flow run to stop? Asked of the Prefect API."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError


def asks_to_stop(flow_run_id: UUID) -> Callable[[], str | None]:
    """A question for the launcher: the reason where the run is being cancelled, else None.

    An API that does not answer, or has lost the run, is no wish to stop; the launcher asks again.
    """

    def ask() -> str | None:
        try:
            with get_client(sync_client=True) as client:
                state: State | None = client.read_flow_run(flow_run_id).state
        except (httpx.HTTPError, PrefectHTTPStatusError, ObjectNotFound, OSError):
            return None
        is_wanted = state is not None and (state.is_cancelling() or state.is_cancelled())
        return f"flow run {flow_run_id} is being cancelled" if is_wanted else None

    return ask
