"""The flow `sweep`: many trainings under a budget of chips, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled

from prefect_tpu.flows.form import Pods, Training
from prefect_tpu.flows.installed_flow import installed_flow
from prefect_tpu.flows.saved import placed
from prefect_tpu.flows.trials import drive
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.request import Request, check, made_up_name
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.sweep.asked import Asked, check_free, enter, sweep_name_from_run
from prefect_tpu.infra.sweep.driver import SweepDriver
from prefect_tpu.infra.sweep.holding import holding
from prefect_tpu.infra.sweep.result import SweepResult, conclude, read_sweep_result
from prefect_tpu.infra.sweep.space import sample
from prefect_tpu.infra.sweep.study import check_installed
from prefect_tpu.tasks.cancellation import asks_to_stop, being_cancelled, own_runs
from prefect_tpu.tasks.collect_trials import collect_trials
from prefect_tpu.tasks.failing import failed


@installed_flow(name="sweep", description="Try many parameters under a budget of chips; keep the best model.")
def sweep(
    program: str,
    space: dict[str, Any],
    metric: str = "loss",
    mode: Literal["min", "max"] = "min",
    trials: int = 10,
    accelerator: str = "cpu",
    chips: int = 0,
    first: list[dict[str, Any]] = [],  # noqa: B006 -- never changed; None would cost the form a switch per field
    pruner: Literal["median", "halving", "hyperband", "none"] = "median",
    sampler: Literal["tpe", "random", "grid"] = "tpe",
    seed: int = 0,
    params: dict[str, Any] = {},  # noqa: B006
    data: dict[str, str] = {},  # noqa: B006
    name: str = "",
    output: str = "",
    start_from: str = "",
    training: Training = Training(),  # noqa: B008 -- frozen by use: the form shows its fields
    backend: str = "",
    image: str = "",
    cluster: str = "",
    pods: Pods = Pods(),  # noqa: B008
) -> dict[str, Any] | State[Any]:
    """Run one program again and again with other parameters, side by side, and keep the best.

    Each trial is a run of the flow `train` and a job of its own, `<name>-0`, `<name>-1`, …, with its checkpoints.

    Args:
        program: What every host of a trial runs: `path.py:function` or `pkg.mod:function`.
        space: Parameter of the function → a list of values, or `{"low": 1e-4, "high": 0.1}` with `"log": true` for
            orders of magnitude or `"step": 1` for some of them; with a whole step, whole numbers.
        metric: What is sought: a key of what the program returns, else what it reports under that name.
        mode: Whether the smallest or the largest value is the best.
        trials: How many there are.
        accelerator: The slice of each trial, such as `v6e-16`, `v5p-2x2x4`, `h100x8` or `cpu`.
        chips: The most that all trials hold at once. 0: as many as the largest takes, so one trial at a time.
        first: Tried before others, each `{"params": {…}}`, as far as wanted with a `priority`, the higher first, and an
            `accelerator` of its own.
        pruner: Who gives up trials that report worse values than others at the same step.
        sampler: Who chooses parameters: by what was found so far, at random, or every point there is.
        seed: Of the sampler: with the same one a sweep chooses alike.
        params: Further keyword arguments of the function, the same for all trials.
        data: Name → file or folder, laid down for the program to read.
        name: Name of the sweep, at most 13 characters. Run the same name again to go on where it stopped. Empty: made
            from the run's id.
        output: Folder of all jobs. Empty: `$PREFECT_TPU_OUTPUT`, or the user's data directory. Hosts in a cluster need
            a `gs://` URL.
        start_from: Folder of another job whose newest checkpoint each trial starts with, or the place of one.
        training: What else `train` takes, the same for all trials.
        backend: Where hosts run, as of the flow `train`.
        image: What the container of each host runs: it has Python and the program's packages.
        cluster: The name `block:NAME` of a saved one, a kubeconfig context, or `gke://project/location/cluster`. Empty:
            the one this runs in, or that `kubectl` uses.
        pods: How hosts run in a cluster.

    Returns:
        The sweep's result: `best value params output checkpoint trials` and what was sought.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        SweepFailed: it is over, and no trial has a value.
    """
    try:
        where = placed(backend, pods.said(image, cluster), output)
        settings = {**training.settings(), "start_from": start_from, **where.settings}
        of_trials = training.given()
        where_said = {"mesh": of_trials.pop("mesh"), "start_from": start_from}  # sweeps of before know neither
        asked = Asked(
            name=name or sweep_name_from_run(str(flow_run.id)),
            program=program,
            space=space,
            metric=metric,
            mode=mode,
            trials=trials,
            accelerators=(accelerator, *of_trials.pop("fallback_accelerators")),
            slices=of_trials.pop("slices"),
            chips=chips,
            first=tuple(first),
            pruner=pruner,
            sampler=sampler,
            seed=seed,
            params=params,
            shared={
                **of_trials,
                "timing": training.timing.model_dump(),
                "data": data,
                "backend": backend,
                **{name: value for name, value in where_said.items() if value},
                "image": image,
                "cluster": cluster,
                "pods": pods.model_dump(exclude_defaults=True),
            },
        )
        check_installed()
        found = _carry_out(asked, where.output, settings)
        if found is None:
            return Cancelled(message=f"Sweep {asked.name} was stopped; run it again by that name to go on.")
        return collect_trials(found)
    except PrefectTpuError as exc:
        return failed(exc)


def _carry_out(asked: Asked, output: str, settings: Mapping[str, Any]) -> SweepResult | None:
    """The sweep's end; None where somebody stopped it before. settings: of the job of any trial."""
    jobs, runs, log = open_storage(output), own_runs(), get_run_logger()
    folder, wishes = jobs.inside(layout.sweep(asked.name)), asks_to_stop(*runs)

    def tell(text: str) -> None:
        log.info("%s", text)

    if folder.get(layout.SWEEP) is None:  # else it goes on, and what was asked for stays what it was
        check_free(jobs, asked.name)
        check(_any_trial(asked, output, settings))
    enter(folder, asked)
    with holding(folder, tell, wishes) as lease:
        if lease is None:
            return None
        if (before := read_sweep_result(folder)) is not None:
            return before
        driver = SweepDriver(jobs, asked, tell, frozenset(map(being_cancelled, runs)))
        drive(driver, lease, wishes)
        return None if driver.leaves is not None else conclude(driver)


def _any_trial(asked: Asked, output: str, settings: Mapping[str, Any]) -> Request:
    """Under a name that no job has: whether there can be any is to be known before the sweep's own name is taken."""
    return Request(
        name=made_up_name(),
        program=asked.program,
        accelerators=asked.accelerators,
        output=output,
        params={**asked.params, **sample(asked.parsed)},
        data=asked.shared["data"],
        settings=settings,
    )
