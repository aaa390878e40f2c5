"""What may follow on the command line? Job names, accelerators and drills; fast, and without Prefect or JAX."""

from __future__ import annotations

import os
from collections.abc import Callable

import typer

from prefect_tpu.infra.errors import PrefectTpuError


def job_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of the jobs in the output that the line names so far."""
    from prefect_tpu.infra.launcher.jobs import job_names
    from prefect_tpu.infra.places import job_output

    return _quietly(lambda: _starting(incomplete, job_names(ctx.params.get("output") or job_output(os.environ))))


def accelerators(incomplete: str) -> list[str]:
    """Every name by number and every GPU machine, with `:spot` once the name is whole."""
    from prefect_tpu.infra.accelerators import curated_names

    names = [*curated_names(), "cpu", "cpu-2x1"]
    return _quietly(lambda: _starting(incomplete, [*names, *(f"{name}:spot" for name in names if name in incomplete)]))


def drills(incomplete: str) -> list[str]:
    """Kinds, then moments."""
    from prefect_tpu.infra.drills import DrillKind

    kind, at, _ = incomplete.partition("@")
    offered = [f"{kind}@{moment}" for moment in ("step=", "save=", "start", "attempt=")]
    return _starting(incomplete, offered if at else [f"{kind.value}@" for kind in DrillKind])


def backends(incomplete: str) -> list[str]:
    from prefect_tpu.infra.backends import names

    return _starting(incomplete, [*names()])


def pod_settings(incomplete: str) -> list[str]:
    """Names of settings, up to where the value begins."""
    from prefect_tpu.infra.pods import PodSettings

    return _starting(incomplete, [f"{name}=" for name in PodSettings.__dataclass_fields__])


def states(incomplete: str) -> list[str]:
    from prefect_tpu.infra.state import JobState

    return _starting(incomplete, [state.value for state in JobState])


def _starting(incomplete: str, offered: list[str]) -> list[str]:
    return [name for name in offered if name.startswith(incomplete)]


def _quietly(find: Callable[[], list[str]]) -> list[str]:
    """A word that is half written is no mistake yet."""
    try:
        return find()
    except PrefectTpuError:
        return []
