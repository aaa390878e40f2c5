"""What does a worker of a `tpu-slice` pool do? It writes runs down as jobs, and keeps those who drive them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import anyio
import anyio.abc
import anyio.to_thread
import httpx
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import InfrastructureNotAvailable, InfrastructureNotFound, ObjectNotFound
from prefect.workers.base import BaseWorker, BaseWorkerResult

from prefect_tpu.flows.work_pool.busy_server import busy_is_away
from prefect_tpu.flows.work_pool.configuration import TpuSliceConfiguration
from prefect_tpu.flows.work_pool.crew import Crew, at_work
from prefect_tpu.flows.work_pool.taking_in import Desk
from prefect_tpu.flows.work_pool.template import base_job_template
from prefect_tpu.flows.work_pool.variables import TpuSliceVariables
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.lease import driver_of
from prefect_tpu.infra.storage import Storage, open_storage

LOOK_SECONDS = 0.5
STATE_SECONDS = 3.0  # between two looks at a run that a slot of `--limit` is kept for
END_SECONDS = 60.0  # beside the job's grace: for the records of its hosts, and until its objects are gone
_AT_WORK = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)


class TpuSliceWorkerResult(BaseWorkerResult):
    """A run that was taken in. identifier: the folder of its job."""


class TpuSliceWorker(BaseWorker[TpuSliceConfiguration, TpuSliceVariables, TpuSliceWorkerResult]):
    """Runs flows on TPU slices: each run is a job, driven by any worker of its pool.

    Several workers of a pool are safe, and one that ends leaves its jobs to the others. With `--limit N` it keeps N
    runs at most at once, pending ones too, from their submission until they end or wait for their next start; without,
    it takes all that the pool hands out. With `--run-once` it leaves when the runs that it took have ended.
    """

    type = "tpu-slice"
    job_configuration = TpuSliceConfiguration
    job_configuration_variables = TpuSliceVariables
    _display_name = "TPU Slice"
    _description = (
        "Run flows on TPU slices: on one host or many, through preemptions. Slices are pods of a Kubernetes cluster, or"
        " processes of the worker's machine for trying things out. Requires the package prefect-tpu."
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._crew: Crew | None = None
        self._is_once = False
        self._kept: set[UUID] = set()

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """As `prefect-tpu pool create` makes it, with its version."""
        return base_job_template()

    async def start(self, run_once: bool = False, *args: Any, **kwargs: Any) -> None:
        """As Prefect's workers do."""
        self._is_once = run_once
        await super().start(run_once, *args, **kwargs)

    async def setup(self) -> None:
        await super().setup()
        self._crew = await self._exit_stack.enter_async_context(
            at_work(self.client, self.name, lambda: self._work_pool)
        )

    async def teardown(self, *exc_info: Any) -> None:
        if self._is_once and not any(exc_info):
            while self._submitting_flow_run_ids or self._kept:
                await anyio.sleep(LOOK_SECONDS)
        self._kept.clear()
        await super().teardown(*exc_info)
        self._crew = None

    @property
    def crew(self) -> Crew:
        """What drives this worker's jobs, while it is set up."""
        if self._crew is None:
            raise RuntimeError("The worker is not set up: use it as an asynchronous context manager.")
        return self._crew

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """As Prefect's workers do, and a busy server does not end it."""
        with busy_is_away():
            return await super().get_and_submit_flow_runs()

    async def sync_with_backend(self) -> None:
        """As Prefect's workers do, and a busy server does not end it."""
        with busy_is_away():
            await super().sync_with_backend()

    async def _submit_run(self, flow_run: FlowRun) -> None:
        """As Prefect's workers do, but a server that refuses meanwhile ends no worker.

        The pool hands the run out again; where it is pending by then, the reconciler gives it back to the pool first.
        """
        try:
            await super()._submit_run(flow_run)
            if flow_run.id not in self._kept:  # Prefect forgets the slot of a run whose deployment is gone
                self._release_limit_slot(flow_run.id)
        except httpx.HTTPError as exc:
            self._logger.warning("Flow run %s could not be taken up yet: %s", flow_run.id, exc)
            self._release_limit_slot(flow_run.id)
            self._submitting_flow_run_ids.discard(flow_run.id)
            if self._cancelling_observer is not None:
                self._cancelling_observer.remove_in_flight_flow_run_id(flow_run.id)

    async def run(
        self,
        flow_run: FlowRun,
        configuration: TpuSliceConfiguration,
        task_status: anyio.abc.TaskStatus[Any] | None = None,
    ) -> TpuSliceWorkerResult:
        """Write the run down as a job, which the reconciler then brings to its end. Never waits for a slice.

        Runs that Python submits come here too: their `infrastructure_pid` is stored by nobody else. Only a worker with
        `--limit` or `--run-once` comes back when the run has ended.
        """
        if self._limit is not None or self._is_once:
            self._kept.add(flow_run.id)
        try:
            folder = await self._take(flow_run, configuration, task_status)
            if folder is not None:
                await self._until_over(flow_run.id, folder)
        finally:
            self._kept.discard(flow_run.id)
        return TpuSliceWorkerResult(identifier=folder or str(flow_run.id), status_code=0)

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: TpuSliceConfiguration, grace_seconds: int = 30
    ) -> None:
        """End what a run has on a slice, and wait until it is gone: its hosts save and leave.

        Raises:
            InfrastructureNotFound: there is no such job.
            InfrastructureNotAvailable: it cannot be reached from here, or does not end in time; ask again.
        """
        try:
            storage = open_storage(infrastructure_pid)
            job = await anyio.to_thread.run_sync(history.read_job, storage)
            if job is None:
                raise InfrastructureNotFound(f"There is no job in {infrastructure_pid}.")
            await anyio.to_thread.run_sync(history.ask_to_stop, storage, "its flow run was cancelled")
            self.crew.nudge(infrastructure_pid)
            with anyio.fail_after(max(grace_seconds, job.grace) + END_SECONDS):
                while not await anyio.to_thread.run_sync(_is_over, storage):
                    await anyio.sleep(LOOK_SECONDS)
        except (PrefectTpuError, TimeoutError) as exc:
            why = str(exc) or "its hosts have not left yet"
            raise InfrastructureNotAvailable(f"The job in {infrastructure_pid} could not be ended: {why}.") from exc

    async def _take(self, flow_run: FlowRun, configuration: TpuSliceConfiguration, status: Any) -> str | None:
        crew = self.crew
        desk = Desk(client=self.client, work_pool=str(self.work_pool.id), holds=crew.fleet.hold, nudge=crew.nudge)

        def started(folder: Any) -> None:
            if status is not None:
                status.started(folder)

        return await desk.take(flow_run, configuration, started, self.get_flow_run_logger(flow_run))

    async def _until_over(self, flow_run: UUID, folder: str) -> None:
        """Until a run that is kept needs this worker no longer: it has ended, or waits until it is handed out again."""
        while flow_run in self._kept and await self._is_at_work(flow_run):
            await anyio.sleep(STATE_SECONDS)
        while self._is_once and flow_run in self._kept and folder in self.crew.fleet.drives:
            await anyio.sleep(LOOK_SECONDS)

    async def _is_at_work(self, flow_run: UUID) -> bool:
        """Whether the run is pending or running, or nobody can say now."""
        try:
            state = (await self.client.read_flow_run(flow_run)).state
        except ObjectNotFound:
            return False
        except httpx.HTTPError as exc:
            self._logger.debug("The state of flow run %s is not known: %s", flow_run, exc)
            return True
        return state is not None and state.type in _AT_WORK


def _is_over(storage: Storage) -> bool:
    """Its end is written last but for what its driver gives back before it lets go."""
    return history.read_result(storage) is not None and driver_of(storage) is None
