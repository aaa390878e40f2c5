"""Is everything fit for jobs? All checks of `prefect-tpu doctor`, and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence

from prefect_tpu.flows.shell.checks import look_at_all
from prefect_tpu.flows.shell.machine_checks import machine
from prefect_tpu.flows.shell.prefect_checks import NAME, server
from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.checks import Check
from prefect_tpu.infra.request import default_output


def examine(output: str | None, backend: str = "local") -> Sequence[Check]:
    """Look at everything; nothing is changed, and nothing is waited for longer than a few seconds."""
    place = output or default_output(backend)
    return look_at_all({**machine(place), **open_backend(backend).checks(place), NAME: server})


def shown(found: Sequence[Check]) -> str:
    """A line per check, and below it what to do."""
    width = max(len(check.name) for check in found)
    lines = []
    for check in found:
        lines.append(f"{check.verdict:<4}  {check.name:<{width}}  {check.found}")
        if check.advice:
            lines.append(f"{'':<4}  {'':<{width}}  → {check.advice}")
    return "\n".join(lines)
