"""How is a run's state moved? By proposals that Prefect may refuse; each is made of what was just read."""

from __future__ import annotations

import datetime
import logging
from typing import Any
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State
from prefect.client.schemas.responses import SetStateStatus
from prefect.exceptions import ObjectNotFound
from prefect.states import AwaitingRetry, Cancelled, Crashed, Pending

from prefect_tpu.flows.work_pool.decision import Cancel, Crash, Proposal, Requeue, Resume

log = logging.getLogger(__name__)
SUBMITTED = "Submitted"  # no wait's name: Prefect takes none twice, and the reason of the first wait would be lost


class Transitions:
    """Moves runs, never by force: what Prefect's rules refuse is left as it is, for the next look to judge."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client

    async def make(self, run: UUID, proposal: Proposal) -> State[Any] | None:
        """The state that the run is in now, where Prefect takes it."""
        return await self.move(run, state_of(proposal, datetime.datetime.now(datetime.UTC)))

    async def name(self, run: UUID, name: str, message: str) -> State[Any] | None:
        """Say of a pending run what it waits for. Prefect takes it only where the name is another one."""
        return await self.move(run, Pending(name=name, message=message))

    async def move(self, run: UUID, state: State[Any]) -> State[Any] | None:
        """The state as Prefect has it now; None where it is not taken.

        Asked once: an answer may be lost, and what was right then may be wrong since.
        Raises `httpx.HTTPError` where the server does not answer; the next look decides anew.
        """
        try:
            answer = await self._client.set_flow_run_state(run, state)
        except ObjectNotFound:
            log.info("Flow run %s is gone, so it is not moved to %s.", run, state.name)
            return None
        if answer.status is SetStateStatus.ACCEPT:
            return answer.state or state
        why = getattr(answer.details, "reason", None)
        log.info("Flow run %s is not moved to %s: %s", run, state.name, why or answer.status)
        return None


def state_of(proposal: Proposal, now: datetime.datetime) -> State[Any]:
    """The state that is proposed."""
    match proposal:
        case Crash(message=message):
            return Crashed(message=message)
        case Cancel(message=message):
            return Cancelled(message=message)
        case Requeue(seconds=seconds, message=message):
            return AwaitingRetry(scheduled_time=now + datetime.timedelta(seconds=seconds), message=message)
        case Resume():
            return Pending(name=SUBMITTED, message="Its next start is due.")
