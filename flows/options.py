"""Which options does a Python call take?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import nearest

if TYPE_CHECKING:
    from prefect_tpu.flows.form import Pods, Timing

Path = str | os.PathLike[str]
PLAIN = (
    "env",
    "checkpoint_every",
    "max_preemptions",
    "max_failures",
    "drills",
    "slices",
    "start_from",
    "mesh",
    "profile",
)
TIMING = ("grace", "orphan_after", "join_timeout", "provision_timeout", "deadline", "stall_timeout")
# What flows that call `train` take together, as their `training`.
TRAINING = (
    "fallback_accelerators",
    "env",
    "checkpoint_every",
    "max_preemptions",
    "max_failures",
    "slices",
    "mesh",
    "drills",
    "profile",
    "timing",
)


class OfAJob(TypedDict, total=False):
    """How each job of a call is carried out, alike for all calls."""

    fallback_accelerators: Sequence[str]
    env: Mapping[str, str]
    checkpoint_every: float
    max_preemptions: int
    max_failures: int
    drills: Sequence[str]
    timing: Timing | Mapping[str, float | None]
    grace: float
    orphan_after: float
    join_timeout: float
    provision_timeout: float
    deadline: float | None
    stall_timeout: float | None
    backend: str
    slices: int
    start_from: str
    mesh: str | Mapping[str, int] | Sequence[Any]
    profile: str
    image: str
    cluster: str
    pods: Pods | Mapping[str, Any]


class Options(OfAJob, total=False):
    """Further options of `train`, `submit` and `run`: the flow `prefect_tpu.flows.train.train` says what they mean.

    Each field of `timing` may be given by itself too. An `image`, a `cluster` or anything in `pods` asks for pods of a
    cluster; without them hosts are processes of this machine.
    """

    arguments: Sequence[str]
    compile: str


class RunOptions(Options, total=False):
    """Options of `run`: those of `train` but `params`, which a call gives as its arguments."""

    data: Mapping[str, Path] | None
    name: str | None
    output: Path | None


class SweepOptions(OfAJob, total=False):
    """Further options of `sweep`: the flow `prefect_tpu.flows.sweep.sweep` says what they mean.

    Those that a trial has too are as of `train`.
    """

    metric: str
    mode: Literal["min", "max"]
    trials: int
    chips: int
    pruner: Literal["median", "halving", "hyperband", "none"]
    sampler: Literal["tpe", "random", "grid"]
    seed: int


OF_RUN = ("accelerator", "gather", *RunOptions.__annotations__)
OF_TRAIN = ("program", "accelerator", "params", "data", "name", "output", *Options.__annotations__)
OF_SWEEP = (
    "program",
    "space",
    "accelerator",
    "first",
    "params",
    "data",
    "name",
    "output",
    *SweepOptions.__annotations__,
)


def check_names(caller: str, options: Iterable[str], known: Sequence[str]) -> None:
    """Raise `UsageError` for an option that `caller` does not have, with the nearest one."""
    for name in options:
        if name not in known:
            hint = nearest(name, known) or f"It has: {', '.join(known)}."
            raise UsageError(f"{caller}() has no option {name!r}. {hint}")
