"""Does somebody want this flow run to stop, or one that it is a part of? Asked of the Prefect API."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import flow_run

_NO_ANSWER = (httpx.HTTPError, PrefectHTTPStatusError, ObjectNotFound, OSError)


def own_runs() -> tuple[str, ...]:
    """The id of the flow run this is called in, and those of the runs it is a part of: its parent and the topmost.

    Where the API does not tell them, the run is taken to be by itself.
    """
    own = str(flow_run.id)
    try:
        others = (flow_run.parent_flow_run_id, flow_run.root_flow_run_id)
    except _NO_ANSWER:
        others = (None, None)
    return tuple(dict.fromkeys(str(found) for found in (own, *others) if found))


def asks_to_stop(*flow_runs: str) -> Callable[[], str | None]:
    """A question for the launcher: the reason where one of these runs is being cancelled, else None.

    An API that does not answer, or has lost a run, is no wish to stop; the launcher asks again.
    """
    wanted = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(run) for run in flow_runs]))

    def ask() -> str | None:
        try:
            with get_client(sync_client=True) as client:
                found = client.read_flow_runs(flow_run_filter=wanted)
        except _NO_ANSWER:
            return None
        return next((being_cancelled(str(run.id)) for run in found if _is_cancelled(run)), None)

    return ask


def being_cancelled(run: str) -> str:
    """The reason of `asks_to_stop` where this run is meant."""
    return f"flow run {run} is being cancelled"


def _is_cancelled(run: FlowRun) -> bool:
    return run.state is not None and (run.state.is_cancelling() or run.state.is_cancelled())
