"""A reconciler in this process, with Prefect's own server behind it, and slices that do what a test says."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import anyio
from prefect import flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.objects import FlowRun, State, WorkPool
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Pending, Running
from prefect_server import Server
from scripted import Scripted

from prefect_tpu.flows.work_pool.acting import Hands
from prefect_tpu.flows.work_pool.reconciler import Reconciler
from prefect_tpu.flows.work_pool.run_reading import Runs
from prefect_tpu.flows.work_pool.tables import Tables
from prefect_tpu.flows.work_pool.transitions import Transitions
from prefect_tpu.flows.work_pool.worker import TpuSliceWorker
from prefect_tpu.infra import layout
from prefect_tpu.infra.backends.base import Handle
from prefect_tpu.infra.contract import HostRecord
from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import JobResult, Program, SliceJob, name_from_run
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.asked_by import AskedBy, write_asked_by
from prefect_tpu.infra.launcher.fleet import Fleet
from prefect_tpu.infra.state import Cause, HostObservation, HostPhase, Observation
from prefect_tpu.infra.storage import LocalStorage

PATIENCE = 90.0
LOOK_SECONDS = 0.05
HOSTS = (0, 1)
TAKEN = Cause(kind=FailureKind.PREEMPTED, message="Taint manager: deleting due to NoExecute taint")
T = TypeVar("T")


def running(attempt: int) -> Observation:
    hosts = (HostObservation(host=host, phase=HostPhase.RUNNING, joined=True) for host in HOSTS)
    return Observation(attempt=attempt, hosts=tuple(hosts))


def ended(attempt: int, exit_code: int = 0) -> Observation:
    records = [HostRecord(attempt=attempt, host=host, exit_code=exit_code, joined_after=1.0) for host in HOSTS]
    hosts = (
        HostObservation(host=r.host, phase=HostPhase.ENDED, exit_code=exit_code, joined=True, record=r) for r in records
    )
    return Observation(attempt=attempt, hosts=tuple(hosts))


def taken(attempt: int) -> Observation:
    gone = HostObservation(host=1, phase=HostPhase.ENDED, cause=TAKEN, place="here")
    return Observation(attempt=attempt, hosts=(running(attempt).hosts[0], gone))


class Slices(Scripted):
    """Those of one job. Its script may be written while it is played; hosts that are told to leave do.

    are_stubborn: what is to be ended stays until they are not.
    """

    look_seconds = LOOK_SECONDS

    def __init__(self) -> None:
        self.are_stubborn = False
        self.script: dict[int, list[Observation]] = {}
        super().__init__(self.script)

    def show(self, *seen: Observation) -> None:
        for one in seen:
            self.script.setdefault(one.attempt, []).append(one)

    async def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
        shown = 0
        while True:
            for seen in self.script.setdefault(handle["attempt"], [running(handle["attempt"])])[shown:]:
                shown += 1
                yield seen
            await anyio.sleep(LOOK_SECONDS)

    async def stop(self, handle: Handle) -> None:
        await super().stop(handle)
        self.show(ended(handle["attempt"], exit_code=81))

    async def forget(self, handle: Handle) -> None:
        while self.are_stubborn:
            await anyio.sleep(LOOK_SECONDS)
        await super().forget(handle)


@flow
def anything() -> None:
    """Nobody runs it: what its engine would say is said by the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One of a run, and its slices."""

    storage: LocalStorage
    slices: Slices

    @property
    def folder(self) -> str:
        return self.storage.url

    async def until_over(self) -> JobResult:
        return await until(lambda: history.read_result(self.storage), "the end of the job")

    async def until_attempt(self, number: int) -> None:
        await until(lambda: history.find_plan(self.storage, number), f"attempt {number}")


@dataclass
class Scene:
    """One pool, its runs, and the scripts of their slices."""

    client: PrefectClient
    pool: WorkPool
    folder: Path
    slices: dict[str, Slices] = field(default_factory=dict)

    async def run(self, *, has_deployment: bool = True, state: State | None = None) -> FlowRun:
        """One that a worker has taken."""
        if not has_deployment:
            return await self.client.create_flow_run(anything, state=state or Pending(), work_pool_name=self.pool.name)
        made = await self.client.create_deployment(
            flow_id=await self.client.create_flow(anything), name=uuid4().hex, work_pool_name=self.pool.name
        )
        return await self.client.create_flow_run_from_deployment(made, state=state or Pending())

    async def job(self, run: FlowRun, **settings: Any) -> Job:
        """As a worker writes it down. Its attempts run until something else is shown."""
        name = name_from_run(str(run.id))
        storage = LocalStorage(self.folder / "jobs" / name)
        write_asked_by(storage, AskedBy(flow_run=str(run.id), work_pool=str(self.pool.id)))
        program = Program(kind="flow", target="prefect", arguments=("flow-run", "execute"))
        job = SliceJob(name=name, program=program, accelerators=("v6e-8",), backend=name, **settings)
        self.slices[name] = slices = Slices()
        history.enter(storage, job)
        for attempt in (1, 2, 3):
            storage.put(layout.record(attempt, 0), HostRecord(attempt=attempt, host=0, exit_code=0).to_json())
        await self.client.update_flow_run(run.id, infrastructure_pid=storage.url)
        return Job(storage=storage, slices=slices)

    async def say(self, run: FlowRun, state: State, *, force: bool = False, after: str = "") -> None:
        """As the engine or a person does; once it is called `after`, where that is given."""
        if after:
            await self.until(run, after)
        await self.client.set_flow_run_state(run.id, state, force=force)

    async def states(self, run: FlowRun) -> list[State]:
        found = await self.client.read_flow_run_states(run.id)
        return sorted(found, key=lambda state: state.timestamp)

    async def names(self, run: FlowRun) -> list[str]:
        return [state.name or "" for state in await self.states(run)]

    async def until(self, run: FlowRun, *names: str) -> State:
        """Until its state is called one of these; the state."""
        end = time.monotonic() + PATIENCE
        while (state := (await self.client.read_flow_run(run.id)).state) is None or state.name not in names:
            assert time.monotonic() < end, f"{names} of the run did not come: {await self.names(run)}"
            await anyio.sleep(LOOK_SECONDS)
        return state

    @asynccontextmanager
    async def worker(self, number: int = 1) -> AsyncIterator[Reconciler]:
        """A reconciler and its fleet, which let go of all jobs afterwards."""
        async with anyio.create_task_group() as tasks:
            fleet = Fleet(tasks, backends=lambda name: self.slices[name])
            reconciler = Reconciler(self.client, self.pool, fleet, f"worker-{number}")
            tasks.start_soon(reconciler.run)
            try:
                yield reconciler
            finally:
                with anyio.CancelScope(shield=True):
                    await fleet.leave()
                tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def hands(self) -> AsyncIterator[Hands]:
        """What a reconciler acts with, alone."""
        async with anyio.create_task_group() as tasks:
            fleet = Fleet(tasks, backends=lambda name: self.slices[name])
            yield Hands(
                runs=Runs(self.client, self.pool.id),
                transitions=Transitions(self.client),
                tables=Tables(self.client),
                fleet=fleet,
                pool=self.pool,
                started=lambda case, drive: None,
                changed=lambda case: None,
                failed=lambda case: None,
            )
            await fleet.leave()


Story = Callable[[Scene], Awaitable[None]]


def play_story(server: Server, folder: Path, story: Story) -> None:
    """With a pool of its own."""

    async def within() -> None:
        async with get_client() as client:
            await story(await new_scene(client, folder))

    with temporary_settings({PREFECT_API_URL: server.environment["PREFECT_API_URL"]}):
        anyio.run(within)


async def begun(scene: Scene, **settings: object) -> tuple[FlowRun, Job]:
    """A run whose engine has just said that it runs."""
    run = await scene.run()
    job = await scene.job(run, **settings)
    await scene.say(run, Running(), after="Starting")
    return run, job


async def until(look: Callable[[], T | None], what: str) -> T:
    """The first answer that is something."""
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, f"{what} did not come"
        await anyio.sleep(LOOK_SECONDS)
    return found


async def new_scene(client: PrefectClient, folder: Path) -> Scene:
    template = TpuSliceWorker.get_default_base_job_template()
    template["variables"]["properties"]["output"]["default"] = str(folder / "jobs")
    name = f"tpu-{uuid4().hex[:8]}"
    pool = await client.create_work_pool(WorkPoolCreate(name=name, type="tpu-slice", base_job_template=template))
    return Scene(client=client, pool=pool, folder=folder)
