"""What does Prefect say of runs? Asked for many at once."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from uuid import UUID

import anyio
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterId,
)
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound

from prefect_tpu.flows.work_pool.busy_server import asked
from prefect_tpu.flows.work_pool.facts import RunFacts
from prefect_tpu.flows.work_pool.words import AGAIN

# The server answers nobody else while it puts a page together: whoever has lost a slice would wait for all of them.
PAGE, REST_SECONDS = 25, 0.25
MOST_CRASHED = 100
AT_WORK = (StateType.PENDING, StateType.RUNNING, StateType.PAUSED, StateType.CANCELLING)
RECENT = datetime.timedelta(hours=1)  # an older crash was seen by somebody, or nobody was there to repeat it

_SUBMITTING = "Failed to submit flow run to infrastructure: "  # how Prefect's worker begins to say that
# What its requests raise. The class stands in the message, and of an answer its number; there is nothing else to read.
_PASSING = re.compile(
    r"(Connect|Read|Write|Pool)(Error|Timeout):|(Remote|Local)ProtocolError:|(Timeout|OS|Connection\w*)Error:"
    r"|(Prefect)?HTTPStatusError: \w+ error '(408|429|5\d\d) "
)


class Runs:
    """The runs of one work pool."""

    def __init__(self, client: PrefectClient, pool: UUID) -> None:
        self._client = client
        self._pool = WorkPoolFilter(id=WorkPoolFilterId(any_=[pool]))

    async def at_work(self) -> list[FlowRun]:
        """All of the pool that are pending, running, paused or being cancelled."""
        return await self._pages(FlowRunFilter(state=_state(AT_WORK)), self._pool)

    async def crashed(self) -> list[FlowRun]:
        """Those of the pool that crashed not long ago, the newest: some of them go on."""
        since = datetime.datetime.now(datetime.UTC) - RECENT
        wanted = FlowRunFilter(state=_state((StateType.CRASHED,)), end_time=FlowRunFilterEndTime(after_=since))
        return await self._pages(wanted, self._pool, FlowRunSort.END_TIME_DESC, most=MOST_CRASHED)

    async def named(self, ids: Iterable[UUID]) -> dict[UUID, FlowRun | None]:
        """These runs, whatever pool they are of; None for each that is not there."""
        wanted = list(dict.fromkeys(ids))
        found: dict[UUID, FlowRun | None] = dict.fromkeys(wanted)
        for first in range(0, len(wanted), PAGE):
            if first:
                await anyio.sleep(REST_SECONDS)
            some = FlowRunFilter(id=FlowRunFilterId(any_=wanted[first : first + PAGE]))
            found |= {run.id: run for run in await self._page(some, None, FlowRunSort.ID_DESC, 0)}
        return found

    async def read(self, run: UUID) -> FlowRun | None:
        """One of them, now."""
        try:
            return await asked(lambda: self._client.read_flow_run(run))
        except ObjectNotFound:
            return None

    async def resubmitted(self, run: UUID) -> int:
        """How often it was given back to Prefect since it ran last, because nothing came of its submission."""
        return resubmissions(await asked(lambda: self._client.read_flow_run_states(run)))

    async def _pages(
        self,
        wanted: FlowRunFilter,
        pool: WorkPoolFilter | None,
        sort: FlowRunSort = FlowRunSort.ID_DESC,
        most: float = math.inf,
    ) -> list[FlowRun]:
        """A run that changes meanwhile may be on two pages, or on none: the next look has it."""
        found: dict[UUID, FlowRun] = {}
        offset, is_full = 0, True
        while is_full and offset < most:
            if offset:
                await anyio.sleep(REST_SECONDS)
            page = await self._page(wanted, pool, sort, offset)
            found |= {run.id: run for run in page}
            offset, is_full = offset + PAGE, len(page) == PAGE
        return list(found.values())

    async def _page(
        self, wanted: FlowRunFilter, pool: WorkPoolFilter | None, sort: FlowRunSort, offset: int
    ) -> list[FlowRun]:
        return await asked(
            lambda: self._client.read_flow_runs(
                flow_run_filter=wanted, work_pool_filter=pool, sort=sort, limit=PAGE, offset=offset
            )
        )


def run_facts(run: FlowRun | None, now: datetime.datetime, seconds: float = 0.0, resubmitted: int = 0) -> RunFacts:
    """What of a run decides what becomes of it. `now`: by the clock that its scheduled time is compared with."""
    state = run.state if run is not None else None
    if run is None or state is None:
        return RunFacts(type=None if run is None else StateType.SCHEDULED, seconds=seconds)
    due = state.state_details.scheduled_time if state.type is StateType.SCHEDULED else None
    return RunFacts(
        type=state.type,
        name=state.name or "",
        message=state.message or "",
        seconds=seconds,
        due_in=max(0.0, (due - now).total_seconds()) if due is not None else 0.0,
        has_deployment=run.deployment_id is not None,
        is_withheld=run.empirical_policy.retry_type == "in_process",
        is_unsubmitted=is_unsubmitted(state),
        resubmitted=resubmitted,
    )


def is_unsubmitted(state: State) -> bool:
    """Whether a worker could not submit the run for a reason that may pass, and said that it crashed."""
    said = state.message or ""
    return (
        state.type is StateType.CRASHED
        and said.startswith(_SUBMITTING)
        and _PASSING.match(said.removeprefix(_SUBMITTING)) is not None
    )


def resubmissions(states: Sequence[State]) -> int:
    """Of a run's states, those by which it was given back, after the last one in which it ran."""
    count = 0
    for state in sorted(states, key=lambda state: state.timestamp):
        if state.type is StateType.RUNNING:
            count = 0
        elif (state.message or "").startswith(AGAIN):
            count += 1
    return count


def _state(types: Sequence[StateType]) -> FlowRunFilterState:
    return FlowRunFilterState(type=FlowRunFilterStateType(any_=list(types)))
