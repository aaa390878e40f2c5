"""`@prefect_tpu.tpu_slice(...)`: which flow runs on which slice, and what of that can be told to be wrong at once?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from prefect.flows import Flow, bind_flow_to_infrastructure
from pydantic import ValidationError

from prefect_tpu.flows.work_pool.slice_flow import SliceFlow, bound
from prefect_tpu.flows.work_pool.variables import TpuSliceVariables
from prefect_tpu.flows.work_pool.worker import TpuSliceWorker
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import nearest, shown
from prefect_tpu.infra.meshes import spelled
from prefect_tpu.infra.request import check_mesh

if TYPE_CHECKING:
    from prefect.bundles import BundleLauncher

P = ParamSpec("P")
R = TypeVar("R")
SIDES = ("upload", "execution")


def tpu_slice(
    work_pool: str = "tpu",
    *,
    include_files: Sequence[str] | None = None,
    include_files_base_dir: Path | str | None = None,
    launcher: BundleLauncher | None = None,
    **job_variables: Any,
) -> Callable[[Flow[P, R]], SliceFlow[P, R]]:
    """Run a flow on a slice each time it is called.

    The flow travels as it is, with the modules beside it: nothing is deployed and no image is built. Its image needs
    Prefect and whatever the flow imports. A pool without storage for such flows gets one in its output.

    Args:
        work_pool: name of a pool of type `tpu-slice`.
        include_files: files that travel too and lie in the flow's working folder, as patterns such as `config/*.yaml`.
        include_files_base_dir: what they are relative to; by default the folder of the flow's file.
        launcher: what runs the steps that carry the flow, such as `["uv", "run"]`; by default the Python that is there,
            so nothing is installed on hosts.
        **job_variables: settings of the run, such as `accelerator="v6e-16"`: those of the pool's form.

    Returns:
        A decorator of flows. The flow can then be called, which waits for its end; `submit(...)` and
        `submit_to_work_pool(...)` return at once, and `retry(flow_run)` runs a run once more.

    Raises:
        UsageError: a setting is not known, or cannot be used.
    """
    if not isinstance(work_pool, str):
        raise UsageError(f"tpu_slice has {shown(work_pool)} as its pool: write `@tpu_slice(...)`, with brackets.")
    if "mesh" in job_variables and not isinstance(job_variables["mesh"], str):
        job_variables["mesh"] = spelled(job_variables["mesh"])  # the form has text
    _check_variables(job_variables)
    _check_files(include_files)
    launchers = _launchers(launcher)

    def decorator(flow: Flow[P, R]) -> SliceFlow[P, R]:
        if not isinstance(flow, Flow):
            raise UsageError(f"tpu_slice decorates flows, and this is {shown(flow)}: put `@flow` below `@tpu_slice`.")
        made = bind_flow_to_infrastructure(
            flow,
            work_pool,
            TpuSliceWorker,
            job_variables=job_variables,
            launcher=launchers,
            include_files=include_files,
            include_files_base_dir=include_files_base_dir,
        )
        return bound(made, {})

    return decorator


def _check_variables(said: Mapping[str, Any]) -> None:
    """Names that are like one of ours are misspelt; others may be variables of the pool, which is asked when called.

    What refers to a block or a variable of Prefect's, in braces, is known when the run is submitted.
    """
    known = TpuSliceVariables.model_fields
    for name in said:
        if name.partition(".")[0] not in known and (hint := nearest(name, known)):
            raise UsageError(f"A run on a slice has no setting {name!r}. {hint}")
    if "command" in said:
        raise UsageError("The command of a decorated flow is what carries it out: leave `command` out.")
    fixed = {name: value for name, value in said.items() if name in known and "{{" not in str(value)}
    try:
        TpuSliceVariables.model_validate(fixed)
    except ValidationError as exc:
        wrong = exc.errors()[0]
        place, value = ".".join(map(str, wrong["loc"])), shown(wrong["input"])
        raise UsageError(f"Setting {place!r} of a run on a slice is {value}: {wrong['msg']}.") from exc
    accelerators = (*filter(None, [fixed.get("accelerator")]), *fixed.get("fallback_accelerators", ()))
    for accelerator in accelerators:
        resolve(accelerator)
    if "{{" not in str(said.get("slices", 1)):
        check_mesh(fixed.get("mesh", ""), accelerators, slices=int(fixed.get("slices", 1)))


def _check_files(patterns: Sequence[str] | None) -> None:
    if isinstance(patterns, str):
        raise UsageError(f"include_files is the text {patterns!r}: give a list of patterns.")
    for pattern in patterns or ():
        if not isinstance(pattern, str) or not pattern.strip():
            raise UsageError(f"include_files has {shown(pattern)}: give patterns of files such as 'config/*.yaml'.")


def _launchers(launcher: BundleLauncher | None) -> BundleLauncher:
    """Side → what runs its step. Uploading is done by this very Python, on hosts by that of the plan."""
    usual = {"upload": [sys.executable], "execution": ["python"]}
    said: dict[str, Any] = (
        dict(launcher or {}) if launcher is None or isinstance(launcher, Mapping) else dict.fromkeys(SIDES, launcher)
    )
    for side, words in said.items():
        if side not in SIDES:
            raise UsageError(f"launcher has {side!r}: give `upload`, `execution` or both.")
        if isinstance(words, str) or not words or not all(isinstance(word, str) and word for word in words):
            raise UsageError(f"The launcher of {side} is {shown(words)}: give a list of words such as ['python'].")
    both = {**usual, **said}
    return {"upload": list(both["upload"]), "execution": list(both["execution"])}
