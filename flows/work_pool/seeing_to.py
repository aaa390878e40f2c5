"""`python -m prefect_tpu.flows.work_pool.seeing_to POOL RUN`: submits a run and sees to it until its end.

The job variables of this submission come in as JSON: the server changes none of a run that is retried.
The process that was started leaves once the run is submitted, with the number of the child that goes on.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import signal
import socket
import sys
from typing import Any
from uuid import UUID

import anyio
import httpx
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import Abort, ObjectNotFound
from prefect.states import Pending
from prefect.utilities.engine import propose_state

from prefect_tpu.flows.streams import make_lasting
from prefect_tpu.flows.work_pool.job_reading import wait_for_end
from prefect_tpu.flows.work_pool.worker import TpuSliceWorker

log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
FAILED = 1


def main(work_pool: str, flow_run: str) -> int:
    """Returns the exit status; the log says the rest."""
    job_variables = json.load(sys.stdin)
    submitted = _go_on_alone()
    for number in (signal.SIGHUP, signal.SIGINT):  # a terminal that closes or interrupts means others
        signal.signal(number, lambda number, frame: None)
    make_lasting()
    anyio.run(_see_to, work_pool, UUID(flow_run), job_variables, submitted)
    return 0


def _go_on_alone() -> int:
    """In a child, whose parent leaves when the descriptor that is returned is written to, or lost."""
    heard, submitted = os.pipe()
    if pid := os.fork():
        os.close(submitted)
        is_submitted = bool(os.read(heard, 1))
        os.write(sys.stdout.fileno(), str(pid).encode())
        os._exit(0 if is_submitted else FAILED)
    os.close(heard)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return submitted


async def _see_to(work_pool: str, flow_run: UUID, job_variables: dict[str, Any], submitted: int) -> None:
    """A worker that polls nothing, until the run is over; told to end, it lets go of it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_end_when_told, tasks.cancel_scope)
        name = f"submitted-from-{socket.gethostname()}"  # one line in the pool's list of workers, however many runs
        async with TpuSliceWorker(work_pool_name=work_pool, name=name, create_pool_if_not_found=False) as worker:
            await _submit(worker, await worker.client.read_flow_run(flow_run), job_variables)
            os.write(submitted, b"1")
            os.close(submitted)
            folder = await _over(worker, flow_run, job_variables)
            if folder:
                await wait_for_end(folder)
        tasks.cancel_scope.cancel()


async def _submit(worker: TpuSliceWorker, run: FlowRun, job_variables: dict[str, Any]) -> None:
    run = run.model_copy(update={"job_variables": job_variables})
    configuration = await worker.job_configuration.resolve_for_flow_run(
        run, client=worker.client, work_pool=worker.work_pool, worker_name=worker.name
    )
    await worker.run(run, configuration)


async def _take_when_due(worker: TpuSliceWorker, run: FlowRun, job_variables: dict[str, Any]) -> None:
    """As a worker that polls does: the run waits for another start, or could not be submitted before."""
    due = run.state.state_details.scheduled_time if run.state is not None and run.state.is_scheduled() else None
    if due is None or due > datetime.datetime.now(datetime.UTC):
        return
    with contextlib.suppress(Abort):  # somebody else takes it
        await propose_state(worker.client, Pending(), flow_run_id=run.id)
        await _submit(worker, run, job_variables)


async def _end_when_told(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as told:
        async for _ in told:
            scope.cancel()
            return


async def _over(worker: TpuSliceWorker, flow_run: UUID, job_variables: dict[str, Any]) -> str | None:
    """Wait until the run is over, or deleted. Returns its job's folder; None where it has no job."""
    folder = None
    while True:
        try:
            run = await worker.client.read_flow_run(flow_run)
        except ObjectNotFound:
            return folder
        except httpx.HTTPError as exc:  # the server is away; what is due is done when it is back
            log.warning("Flow run %s cannot be asked for: %s", flow_run, exc)
        else:
            folder = run.infrastructure_pid or folder
            if run.state is not None and run.state.is_final():
                return folder
            try:
                await _take_when_due(worker, run, job_variables)
            except Exception:  # nobody else may see to the run
                log.exception("Flow run %s could not be submitted again; tried soon.", flow_run)
        await anyio.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
