"""`prefect_tpu.sweep(...)`: the flow `sweep` as a Python call, with functions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from prefect_tpu.flows.asking import Asked as AskedJob
from prefect_tpu.flows.asking import ask, parameters
from prefect_tpu.flows.brief import brief
from prefect_tpu.flows.call import run_to_end
from prefect_tpu.flows.options import OF_SWEEP, TRAINING, Path, SweepOptions, check_names
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import SweepFailed
from prefect_tpu.infra.request import Request, made_up_name
from prefect_tpu.infra.storage import open_storage
from prefect_tpu.infra.sweep.asked import Asked, check_sweep_name
from prefect_tpu.infra.sweep.result import SweepResult
from prefect_tpu.infra.sweep.space import sample
from prefect_tpu.infra.sweep.study import check_installed

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

OF_THE_SWEEP = ("metric", "mode", "trials", "chips", "pruner", "sampler", "seed")


@brief
def sweep(
    program: str | Callable[..., Any],
    space: Mapping[str, Any],
    accelerator: str = "cpu",
    *,
    first: Sequence[Mapping[str, Any]] = (),
    params: Mapping[str, Any] | None = None,
    data: Mapping[str, Path] | None = None,
    name: str | None = None,
    output: Path | None = None,
    **options: Unpack[SweepOptions],
) -> SweepResult:
    """Try many parameters as one Prefect flow run, a trial each, and wait for the best.

    Args:
        program: a function, or `path.py:function` or `pkg.mod:function`.
        space: parameter → a list of values, or `low` and `high` with `log` or a `step`.
        accelerator: the slice of each trial, such as `v6e-16` or `cpu`.
        first: tried before others, each with `params` and, as far as wanted, `priority` and `accelerator`.
        params: further keyword arguments of the function, the same for all trials.
        data: name → file or folder, laid down for the program to read.
        name: of the sweep, at most 13 characters; call with the same name again to go on where it stopped.
        output: folder of all jobs; `$PREFECT_TPU_OUTPUT` or the user's data directory by default.
        **options: further parameters of the flow `prefect_tpu.flows.sweep.sweep`, those of its `training` and `timing`
            by their own names.

    Returns:
        The sweep's result: the best trial with its value, its parameters and its model, and all others.

    Raises:
        UsageError: the call cannot be carried out; the message says what to change.
        PlatformError: the Prefect server cannot be reached, or the output not be written.
        SweepFailed: no trial has a value, or the sweep was stopped before its end.
    """
    check_names("sweep", options, OF_SWEEP)
    check_installed()
    name = check_sweep_name(name or f"s-{secrets.token_hex(6)[:11]}")
    own = {key: options[key] for key in OF_THE_SWEEP if key in options}  # type: ignore[literal-required]
    of_train = {key: value for key, value in options.items() if key not in own}
    fixed = dict(params or {})
    asked = Asked(
        name=name,
        program="",
        space=space,
        accelerators=(accelerator, *options.get("fallback_accelerators", ())),
        slices=options.get("slices", 1),
        first=tuple(first),
        params=fixed,
        **own,
    )
    # Any trial, under a name that no job has: whether there could be such a one.
    any_trial = {"params": {**fixed, **sample(asked.parsed)}, "data": data, "output": output, "name": made_up_name()}
    return _carry_out(asked, ask("sweep", program, accelerator, {**of_train, **any_trial}), own)


def _carry_out(asked: Asked, job: AskedJob, own: Mapping[str, Any]) -> SweepResult:
    def flow() -> Any:
        from prefect_tpu.flows.sweep import sweep as flow

        return flow

    folder = open_storage(job.request.output).inside(layout.sweep(asked.name))
    return run_to_end(flow, lambda: _parameters(asked, job.send(folder), own), _ended)


def _parameters(asked: Asked, request: Request, own: Mapping[str, Any]) -> dict[str, Any]:
    """Of the flow `sweep`; request: of any of its trials."""
    of_trial = parameters(request)
    for name in ("arguments", "compile"):  # its programs are functions, and none is compiled before each trial
        del of_trial[name]
    training = {name: of_trial.pop(name) for name in TRAINING if name in of_trial}
    return {
        **of_trial,
        **own,
        "training": training,
        "space": dict(asked.space),
        "first": [dict(point) for point in asked.first],
        "params": asked.params,
        "name": asked.name,
    }


def _ended(state: State[Any]) -> SweepResult:
    """The flow's result, or its exception."""
    if state.is_cancelled():
        raise SweepFailed(state.message or "The sweep was stopped; run it again by its name to go on.")
    # Without `_sync` this is a coroutine where an event loop runs, as in a notebook.
    found: Any = state.result(raise_on_failure=True, _sync=True)  # type: ignore[call-overload]
    return SweepResult.from_json(found)
