"""How does a caller wait for a run on a slice? By asking Prefect how it is, which outlasts what events do not."""

from __future__ import annotations

import logging
import time
import uuid
from typing import TypeVar

import anyio
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.futures import PrefectFlowRunFuture

from prefect_tpu.flows.work_pool.busy_server import asked

log = logging.getLogger(__name__)
R = TypeVar("R")
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds between two questions; a run on a slice lasts hours
PAUSE_SHARE = 0.1  # of the time waited
AWAY_SECONDS = 3600.0  # without an answer, until a caller is told that the server is away


class SliceRun(PrefectFlowRunFuture[R]):
    """A flow run on a slice: `state`, `wait()` and `result()`.

    A preempted run goes on by itself and is not over. What is over is `Completed`, `Failed`, `Cancelled` or `Crashed`:
    `result()` returns what the flow returned, or raises what it raised, `CancelledRun` or `CrashedRun` with the cause.
    """

    def __init__(self, flow_run_id: uuid.UUID) -> None:
        super().__init__(flow_run_id)

    async def wait_async(self, timeout: float | None = None) -> None:
        """Return when the run is over, or after `timeout` seconds.

        Prefect's own wait ends with the first event that it ever saw of an end, also one before a retry, and lasts for
        ever where its connection for events was lost.
        """
        if self._final_state is not None:
            return
        with anyio.move_on_after(timeout):
            async with get_client() as client:
                self._final_state = (await _final(client, self.flow_run_id)).state


async def _final(client: PrefectClient, flow_run_id: uuid.UUID) -> FlowRun:
    """The run, once it is over. A server that is away for a while ends no run, and so no wait for one."""

    def tell(why: BaseException) -> None:
        log.warning("How flow run %s is cannot be asked now: %s. Asked again.", flow_run_id, why)

    began = time.monotonic()
    while True:
        run = await asked(lambda: client.read_flow_run(flow_run_id), AWAY_SECONDS, tell)
        if run.state is not None and run.state.is_final():
            return run
        waited = time.monotonic() - began
        await anyio.sleep(min(LONGEST_PAUSE, max(FIRST_PAUSE, PAUSE_SHARE * waited)))
