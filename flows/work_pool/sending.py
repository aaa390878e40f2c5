"""How does a decorated flow become a run that a worker can submit? A pending run, and a bundle where hosts find it."""

from __future__ import annotations

import contextlib
import shutil
import uuid
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from prefect.bundles import (
    BundleCreationResult,
    aupload_bundle_to_storage,
    convert_step_to_command,
    create_bundle_for_flow_run,
)
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.context import FlowRunContext, TagsContext
from prefect.exceptions import ObjectNotFound
from prefect.states import Failed, Pending
from prefect.tasks import Task
from prefect.utilities.processutils import command_to_string

from prefect_tpu.flows.work_pool import travelling
from prefect_tpu.flows.work_pool.bundle_storage import (
    Settings,
    Step,
    Steps,
    results_of,
    settings_of,
    steps_of,
)
from prefect_tpu.flows.work_pool.job_reading import wait_for_end
from prefect_tpu.flows.work_pool.outputs import is_folder
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.job_checks import nearest

if TYPE_CHECKING:
    from prefect_tpu.flows.work_pool.slice_flow import SliceFlow

TYPE = "tpu-slice"
ZIP_FOLDER = "prefect-zip-"  # how the folder begins in which Prefect packs files


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """One bundle on its way.

    key: its name in storage.
    upload, command: the step that carries it there, and what runs it on the leader.
    """

    key: str
    upload: Step
    command: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A run that can be submitted.

    job_variables: of this submission. The server knows those of the first one: it changes none of a run that belongs to
        no deployment.
    """

    run: FlowRun
    job_variables: dict[str, Any]


async def pool_of(client: PrefectClient, name: str, job_variables: Mapping[str, Any]) -> WorkPool:
    """The pool of this name, which knows all these variables.

    Raises `UsageError` where there is none, or it is of another type, or a variable is none of its own.
    """
    try:
        pool = await client.read_work_pool(name)
    except ObjectNotFound as exc:
        raise UsageError(
            f"There is no work pool {name!r}: make one with `prefect-tpu pool create {name}`, or by starting its worker"
            f" (`prefect worker start --type {TYPE} --pool {name}`)."
        ) from exc
    if pool.type != TYPE:
        raise UsageError(f"Work pool {name!r} is of type {pool.type!r}: name one of type {TYPE!r}.")
    known = pool.base_job_template.get("variables", {}).get("properties", {})
    for variable in job_variables:
        if variable.partition(".")[0] not in known:
            hint = nearest(variable, known) or f"It has {', '.join(known)}."
            raise UsageError(f"Work pool {name!r} has no variable {variable!r}. {hint}")
    return pool


async def send(
    client: PrefectClient,
    flow: SliceFlow[..., Any],
    parameters: dict[str, Any],
    again: FlowRun | None = None,
    begun: Callable[[FlowRun], None] = lambda run: None,
) -> Sent:
    """A run that is pending, whose bundle lies where its hosts find it.

    Args:
        client: of the Prefect server.
        flow: what runs.
        parameters: by name.
        again: the run that is to go on, in place of a new one.
        begun: hears of the run as soon as it waits for its slice.

    Raises:
        UsageError: the flow cannot be sent, or not to this pool.
        PlatformError: the storage of the pool does not take it.
    """
    pool = await pool_of(client, flow.work_pool, flow.job_variables)
    settings = await settings_of(pool, flow.job_variables)
    leaving = await _leaving(pool, settings, flow)
    sending = _sending(await steps_of(client, pool, settings), dict(leaving.launcher or {}))
    # Whichever machine's worker takes the run, its output is where its bundle lies.
    variables = {**flow.job_variables, "output": settings.output, "command": command_to_string(sending.command)}
    run = await (_made(client, pool, leaving, parameters, variables) if again is None else _again(client, again))
    begun(run)
    try:
        await _carry(leaving, run, sending)
    except Exception as exc:
        message = f"The flow could not be sent to its slice: {exc}"
        await client.set_flow_run_state(run.id, Failed(message=message), force=True)
        raise (PlatformError if isinstance(exc, RuntimeError | OSError) else UsageError)(message) from exc
    return Sent(run=run, job_variables=variables)


async def _leaving(pool: WorkPool, settings: Settings, flow: SliceFlow[..., Any]) -> SliceFlow[..., Any]:
    """As it travels, and keeping what it returns where the caller can read it."""
    if flow.result_storage is not None:
        return flow.as_it_travels()
    return flow.with_options(result_storage=await results_of(pool, settings), persist_result=True).as_it_travels()


def _sending(steps: Steps, launchers: Mapping[str, Any]) -> Sending:
    key = str(uuid.uuid4())
    execute = _launched(steps.execute, launchers.get("execution"))
    return Sending(
        key=key,
        upload=_launched(steps.upload, launchers.get("upload")),
        command=convert_step_to_command(execute, key),
    )


def _launched(step: Step, launcher: list[str] | None) -> Step:
    """The step, run by this; what it would install is then there already."""
    found = deepcopy(step)
    for arguments in found.values():
        if launcher:
            arguments["launcher"] = launcher
            arguments.pop("requires", None)
    return found


async def _made(
    client: PrefectClient,
    pool: WorkPool,
    flow: SliceFlow[..., Any],
    parameters: dict[str, Any],
    variables: dict[str, Any],
) -> FlowRun:
    """A new run; inside a flow, a child of its run."""
    sent, parent = travelling.parameters_of(flow, parameters), None
    if around := FlowRunContext.get():
        stand_in: Task[Any, Any] = Task(name=flow.name, fn=flow.fn, version=flow.version)
        parent = await stand_in.create_run(flow_run_context=around, parameters=parameters)
    return await client.create_flow_run(
        flow,
        parameters=sent,
        state=Pending(),  # no worker takes it before its bundle is there
        job_variables=variables,
        work_pool_name=pool.name,
        tags=TagsContext.get().current_tags,
        parent_task_run_id=None if parent is None else parent.id,
    )


async def _again(client: PrefectClient, run: FlowRun) -> FlowRun:
    if run.state is None or not run.state.is_final():
        raise UsageError(
            f"Flow run {run.name!r} is {run.state_name}, not over: wait for its end or cancel it, then retry it."
        )
    if run.infrastructure_pid and is_folder(run.infrastructure_pid):  # else its old hosts would be taken for the new
        await wait_for_end(run.infrastructure_pid)
    # A result that is kept would refuse it: whoever retries a completed run wants just that.
    await client.set_flow_run_state(run.id, Pending(message="Retried."), force=True)
    return await client.read_flow_run(run.id)


async def _carry(flow: SliceFlow[..., Any], run: FlowRun, sending: Sending) -> None:
    made = await anyio.to_thread.run_sync(_bundle, flow, run)
    archive = made["zip_path"]
    try:
        await aupload_bundle_to_storage(
            made["bundle"],
            sending.key,
            convert_step_to_command(sending.upload, sending.key, quiet=True),
            zip_path=archive,
            upload_step=sending.upload,
        )
    finally:
        if archive is not None:
            _remove(archive)


def _bundle(flow: SliceFlow[..., Any], run: FlowRun) -> BundleCreationResult:
    return create_bundle_for_flow_run(flow, run, context=travelling.context())


def _remove(archive: Path) -> None:
    with contextlib.suppress(OSError):
        archive.unlink()
        if archive.parent.name.startswith(ZIP_FOLDER):
            shutil.rmtree(archive.parent)
