"""How does a flow run become a job, written down exactly once however often it is submitted?

Every part may be repeated and cut short anywhere: what is there stays. The job itself is written last, so whoever finds
one finds all that its hosts need.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import anyio.to_thread

from prefect_tpu.flows.saved import completed
from prefect_tpu.flows.work_pool.configuration import COMMAND, OF_PODS, TpuSliceConfiguration
from prefect_tpu.flows.work_pool.environment import Environment, environment_of
from prefect_tpu.flows.work_pool.kept_secret import keep_secret, secret_place
from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.job import Program, SliceJob, name_from_run
from prefect_tpu.infra.job_checks import check_environment
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.asked_by import AskedBy, write_asked_by
from prefect_tpu.infra.meshes import spelled
from prefect_tpu.infra.pods import PodSettings, in_pods
from prefect_tpu.infra.request import check_mesh, default_output, job_folder
from prefect_tpu.infra.storage import Storage, open_storage

Holds = Callable[[str], AbstractAsyncContextManager[Storage | None]]  # a job's folder → its lease, where it is free


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A flow run as a job.

    job: what is written down.
    output: of all jobs.
    secret: values that its flow must have, and that are not written down with it.
    """

    job: SliceJob
    output: str
    secret: dict[str, str]

    @property
    def folder(self) -> str:
        """The job's, which is the run's `infrastructure_pid` too."""
        return job_folder(self.output, self.job.name)


async def with_saved_clusters(configuration: TpuSliceConfiguration) -> TpuSliceConfiguration:
    """The same with what a block `GKECluster` says, where its cluster is one."""
    found, output = await anyio.to_thread.run_sync(completed, configuration.said_of_pods, abandon_on_cancel=True)
    said: dict[str, Any] = {"cluster": "", **{name: value for name, value in found.items() if name in OF_PODS}}
    said = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
    return configuration.model_copy(update={**said, "output": configuration.output or output})


def submission_of(configuration: TpuSliceConfiguration, flow_run: UUID | str) -> Submission:
    """A run as a job. Nothing is written and nobody is asked.

    Raises:
        UsageError: no such job can be; the message says which setting to change.
    """
    if configuration.refusal:
        raise UsageError(f"The settings of the run cannot be used: {configuration.refusal}. Change its job variables.")
    name = name_from_run(str(flow_run))
    placed = _placed(configuration)
    pods: PodSettings | None = placed.get("pods")
    taken = pods.secrets if pods else ()
    found = environment_of(configuration.env, configuration.hidden, in_cluster=pods is not None, taken=taken)
    job = _job(configuration, name, placed.get("backend", "local"), pods and _told(configuration, name, pods, found))
    check_environment(found.secret)  # the rest is looked at with the job
    job = replace(job, env=found.plain)
    output = configuration.output or default_output(job.backend)
    for accelerator in job.accelerators:
        resolve(accelerator, dialect=job.dialect)
    check_mesh(job.mesh, job.accelerators, slices=job.slices, dialect=job.dialect)
    open_backend(job.backend).check(job, output)
    return Submission(job=job, output=output, secret={n: v for n, v in found.secret.items() if n not in taken})


def _placed(configuration: TpuSliceConfiguration) -> dict[str, Any]:
    """Who asked for no cluster in so many words is told what was taken for it."""
    said = configuration.said_of_pods
    try:
        return in_pods(configuration.backend or None, said)
    except UsageError as exc:
        if configuration.backend:
            raise
        raise UsageError(f"{exc} Only pods of a cluster have {', '.join(said)}: for processes leave that out.") from exc


def _job(configuration: TpuSliceConfiguration, name: str, backend: str, pods: PodSettings | None) -> SliceJob:
    return SliceJob(
        name=name,
        program=_program(configuration.command),
        accelerators=_accelerators(configuration),
        backend=backend,
        slices=configuration.slices,
        mesh=spelled(configuration.mesh),
        profile=configuration.profile,
        pods=pods,
        max_preemptions=configuration.max_preemptions,
        checkpoint_every=configuration.checkpoint_every,
        grace=configuration.grace,
        orphan_after=configuration.orphan_after,
        join_timeout=configuration.join_timeout,
        provision_timeout=configuration.provision_timeout,
        deadline=configuration.run_timeout or None,
        stall_timeout=configuration.stall_timeout or None,
    )


def _program(command: str | None) -> Program:
    try:
        words = shlex.split(command or COMMAND)
    except ValueError as exc:
        raise UsageError(f"The command {command!r} cannot be read: {exc}. Write it as for a shell.") from exc
    if not words:
        raise UsageError("The command is empty: leave the variable out, or name what the leader is to run.")
    return Program(kind="flow", target=words[0], arguments=tuple(words[1:]))


def _accelerators(configuration: TpuSliceConfiguration) -> tuple[str, ...]:
    """What names no capacity has the one that all have."""
    suffix = f":{configuration.capacity}" if configuration.capacity else ""
    named = (configuration.accelerator, *configuration.fallback_accelerators)
    return tuple(_with_capacity(name.strip(), suffix) for name in named)


def _with_capacity(name: str, suffix: str) -> str:
    return name if ":" in name.removeprefix("tpu:").removeprefix("gpu:") else f"{name}{suffix}"


def _told(configuration: TpuSliceConfiguration, name: str, pods: PodSettings, found: Environment) -> PodSettings:
    """Pods with the names of the run's own secrets, and of what they belong to; what was said itself counts more."""
    own = {variable: secret_place(name, variable) for variable in (*found.secret, Env.REGION_KEY)}
    return replace(
        pods,
        secrets={**own, **pods.secrets},
        annotations={**configuration.given_by_prefect, **pods.annotations},
    )


class NotNow(PlatformError):
    """The job cannot be begun again yet."""


async def submit(
    submission: Submission, asker: AskedBy, holds: Holds, is_wanted: Callable[[], Awaitable[bool]]
) -> None:
    """Write the job down, or find it.

    One that lives, or whose next attempt is due, is left as it is. One that has its end goes on with a fresh budget
    and the settings of now, whatever that end was: a flow that failed ends its program well.

    Args:
        submission: what is asked for now.
        asker: the run that is to know how it goes.
        holds: gives the job's lease for a moment.
        is_wanted: whether the run still waits to be started; asked before a job is begun again.

    Raises:
        NotNow: it is being stopped, or another process is ending it: submit the run again soon.
        PlatformError: the output, or a cluster, cannot be reached or refuses.
    """
    storage = open_storage(submission.folder)
    await anyio.to_thread.run_sync(write_asked_by, storage, asker, abandon_on_cancel=True)
    kept = {**submission.secret, Env.REGION_KEY: secrets.token_hex(32)}
    await keep_secret(storage, submission.job, kept)
    if await anyio.to_thread.run_sync(_is_written, storage, submission.job, abandon_on_cancel=True):
        return
    async with holds(submission.folder) as held:
        if held is None:
            raise NotNow("Another process is ending the job of an earlier start of the run.")
        if await is_wanted():
            await keep_secret(held, submission.job, kept)  # who cleared up after the old end may just have removed it
            await anyio.to_thread.run_sync(history.begin_round, held, submission.job)


def _is_written(storage: Storage, job: SliceJob) -> bool:
    """Write the job where there is none. Whether it has no end, so that nothing is left to be done."""
    if storage.put_if_absent(layout.JOB, job.to_json()):
        return True
    if history.read_result(storage) is not None:
        return False
    if history.is_stop_asked(storage):
        raise NotNow(f"Job {job.name!r} of an earlier start of the run is being stopped.")
    return True
