"""The flow `train`: one program on a slice until it is done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed

from prefect_tpu.flows.form import Pods, Timing
from prefect_tpu.flows.installed_flow import installed_flow
from prefect_tpu.flows.saved import placed
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import JobFailed, PrefectTpuError
from prefect_tpu.infra.job import JobResult, SliceJob, name_from_run
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.asked_by import AskedBy, write_asked_by
from prefect_tpu.infra.launcher.driving import Driving, driving
from prefect_tpu.infra.request import Request, job_folder
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.summary import failing_traceback
from prefect_tpu.infra.sweep.trial_job import GIVEN_UP
from prefect_tpu.tasks.belonging import related_here
from prefect_tpu.tasks.cancellation import asks_to_stop, own_runs
from prefect_tpu.tasks.check_quota import check_quota
from prefect_tpu.tasks.chip_limits import ChipLimits
from prefect_tpu.tasks.collect_results import collect_results
from prefect_tpu.tasks.compile_step import compile_step
from prefect_tpu.tasks.failing import failed, value_of
from prefect_tpu.tasks.launch_training import launch_training
from prefect_tpu.tasks.provision_slice import provision_slice
from prefect_tpu.tasks.release_slice import release_slice
from prefect_tpu.tasks.reporting import Reporter
from prefect_tpu.tasks.slice_events import SliceEvents, end_of, without_result
from prefect_tpu.tasks.stage_data import stage_data


@installed_flow(name="train", description="Train on a slice, through preemptions, to a result.")
def train(
    program: str,
    accelerator: str = "cpu",
    params: dict[str, Any] = {},  # noqa: B006 -- never changed; None would cost the form a switch per field
    data: dict[str, str] = {},  # noqa: B006
    name: str = "",
    output: str = "",
    fallback_accelerators: list[str] = [],  # noqa: B006
    arguments: list[str] = [],  # noqa: B006
    env: dict[str, str] = {},  # noqa: B006
    checkpoint_every: float = 600.0,
    max_preemptions: int = 10,
    max_failures: int = 0,
    drills: list[str] = [],  # noqa: B006
    timing: Timing = Timing(),  # noqa: B008 -- frozen by use: the form shows its fields
    backend: str = "",
    slices: int = 1,
    start_from: str = "",
    mesh: str = "",
    profile: str = "",
    image: str = "",
    cluster: str = "",
    pods: Pods = Pods(),  # noqa: B008
    compile: str = "",  # noqa: A002 -- as the shell calls it
) -> dict[str, Any] | State[Any]:
    """Run one program on every host of a slice until it is done.

    Args:
        program: What every host runs: `path.py:function`, `pkg.mod:function`, a script `path.py`, or a command.
        accelerator: The slice, such as `v6e-16`, `v5p-2x2x4`, `h100x8` or `cpu`.
        params: Keyword arguments of the function. Progress is shown of a number of `steps`.
        data: Name → file or folder, laid down for the program to read.
        name: Name of the job. Run the same name again to go on where it stopped. Empty: made from the run's id.
        output: Folder of all jobs. Empty: `$PREFECT_TPU_OUTPUT`, or the user's data directory. Hosts in a cluster need
            a `gs://` URL.
        fallback_accelerators: Taken in this order where the first is not to be had.
        arguments: Arguments of a script or command.
        env: Plain environment variables of the program; no secrets.
        checkpoint_every: Seconds between checkpoints.
        max_preemptions: Restarts without progress before the job is given up.
        max_failures: Restarts after an error of the program.
        drills: Failures to rehearse, such as `preempt@step=40,host=2`.
        timing: How long the launcher waits.
        backend: Where hosts run: `local`, processes of this machine; `jobset`, pods of a cluster; or `pathways`, one
            pod that drives the chips of all others. Empty: `jobset` where an image, a cluster or anything of `pods` is
            given, and `pathways` where that is.
        slices: How many slices of the accelerator the program spans.
        start_from: Folder of another job whose newest checkpoint this one starts with, or the place of one checkpoint.
        mesh: What `prefect_tpu.mesh()` gives a program that says none, such as `data=-1,tp=4`. Empty: one axis `data`.
        profile: Which steps all hosts record for xprof, such as `skip=10,steps=5`. Empty: none.
        image: What the container of each host runs: it has Python and the program's packages.
        cluster: The name `block:NAME` of a saved one, a kubeconfig context, or `gke://project/location/cluster`. Empty:
            the one this runs in, or that `kubectl` uses.
        pods: How hosts run in a cluster.
        compile: What Google's TPU compiler is asked about before a slice is asked for, so that none is paid for a step
            that cannot compile or does not fit: `yes` for the program's own step, which it calls by `prefect_tpu.step`,
            or a function `path.py:lower` that lowers it for a mesh, with those of `params` that it has. Empty: nothing.

    Returns:
        The job's result: `job state attempts output value failure`.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        JobFailed: the job ended without its result.
    """
    try:
        where = placed(backend, pods.said(image, cluster), output)
        settings = {
            "env": env,
            "checkpoint_every": checkpoint_every,
            "max_preemptions": max_preemptions,
            "max_failures": max_failures,
            "drills": tuple(drills),
            "slices": slices,
            "start_from": start_from,
            "mesh": mesh,
            "profile": profile,
            **timing.model_dump(),
            **where.settings,
        }
        request = Request(
            name=name or _name_of_this_run(),
            program=program,
            accelerators=(accelerator, *fallback_accelerators),
            output=where.output,
            params=params,
            arguments=tuple(arguments),
            data=data,
            settings=settings,
            compile=compile,
        )
        return _carry_out(request)
    except PrefectTpuError as exc:
        return failed(exc)


def _name_of_this_run() -> str:
    """On a slice of a work pool the run itself is a job, which has the plain name."""
    name = name_from_run(str(flow_run.id))
    own_job = PurePosixPath(os.environ.get(Env.ATTEMPT, "")).parent.name
    return f"{name}-job" if own_job == name else name


def _carry_out(request: Request) -> dict[str, Any] | State[Any]:
    if request.compile:
        value_of(compile_step(request))
    job = value_of(stage_data(request))
    folder, report = job_folder(request.output, job.name), Reporter(get_run_logger())
    events = SliceEvents(job.name, folder, related_here())
    _check_quota(job, request.output, events)
    with driving(job, folder, report, asks_to_stop(*own_runs()), witness=events.hear, permits=ChipLimits()) as driven:
        write_asked_by(open_storage(folder), AskedBy(flow_run=str(flow_run.id)))
        for number in _attempts(driven):
            with _slice(driven, number) as is_there:
                if is_there:
                    launch_training.with_options(task_run_name=f"launch_training-{number}")(driven)
    return _end(job, driven.result, events)


def _check_quota(job: SliceJob, output: str, events: SliceEvents) -> None:
    try:
        value_of(check_quota(job, output))
    except JobFailed as exc:
        events.send(without_result(exc.failure, _this_end()))
        raise


def _attempts(driven: Driving) -> Iterator[int]:
    """The numbers of the attempts to carry out, each after its back-off, until the job has its end."""
    while (number := driven.next_attempt()) is not None:
        yield number


@contextmanager
def _slice(driven: Driving, number: int) -> Iterator[bool]:
    """A slice for one attempt, given back whatever happens. False where none is to be had: then the task that was
    refused has said why, and none comes after it.
    """
    try:
        value_of(provision_slice.with_options(task_run_name=f"provision_slice-{number}")(driven))
    except JobFailed:  # raised once the job has its end
        driven.release()
        yield False
        return
    try:
        yield True
    finally:
        release_slice.with_options(task_run_name=f"release_slice-{number}")(driven)


def result_of(state: State[Any]) -> JobResult:
    """The result of a run of this flow, or its exception. One that was cancelled keeps its job's result in its state.

    Raises `JobFailed` where the job was stopped.
    """
    stopped = state.is_cancelled() and state.data is not None
    # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
    ended: Any = state.result(raise_on_failure=not stopped, _sync=True)  # type: ignore[call-overload]
    result = JobResult.from_json(ended)
    if result.failure is not None:
        raise JobFailed(result.job, result.failure)
    return result


def _end(job: SliceJob, result: JobResult | None, events: SliceEvents) -> dict[str, Any] | State[Any]:
    assert result is not None, "no attempt is left only once the job has its end"
    events.send(end_of(result, _this_end()))
    if result.failure is not None and not result.attempts and result.state != "stopped":  # it was refused
        raise JobFailed(job.name, result.failure)
    collected = collect_results(result)
    if result.state == "stopped":
        return _stopped(result, collected)
    if result.failure is not None:
        raise JobFailed(job.name, result.failure, traceback=failing_traceback(result))
    return collected


def _stopped(result: JobResult, collected: dict[str, Any]) -> State[Any]:
    """A trial that its sweep has given up is done: nobody is to go on with it."""
    if history.stop_reason(open_storage(result.output)) == GIVEN_UP:
        return Completed(name="GivenUp", message=f"Job {result.job}: {GIVEN_UP}.", data=collected)
    return Cancelled(message=f"Job {result.job} was stopped; run it again by that name to go on.", data=collected)


def _this_end() -> str:
    """Tells this end of the job from others that it had, or will have when it is run again."""
    return f"{flow_run.id} {flow_run.run_count}"
