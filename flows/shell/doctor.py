"""Is everything fit for jobs? All checks of `prefect-tpu doctor`, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefect_tpu.flows.saved import completed
from prefect_tpu.flows.shell.checks import look_at_all
from prefect_tpu.flows.shell.machine_checks import machine
from prefect_tpu.flows.shell.prefect_checks import NAME, server
from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.checks import Check, warn
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.pods import pod_settings
from prefect_tpu.infra.request import default_output


def examine(output: str | None, backend: str = "local") -> Sequence[Check]:
    """Look at everything; nothing is changed, and nothing is waited for longer than a few seconds."""
    place = output or default_output(backend)
    return look_at_all({**machine(place), **open_backend(backend).checks(place), NAME: server})


def examine_cluster(output: str | None, said: Mapping[str, Any], accelerators: Sequence[str]) -> Sequence[Check]:
    """Look at this machine, the output and a cluster; nothing is changed.

    said: what jobs would say of their pods; what is looked at of it is where they run and what they name there.
    """
    import anyio

    from prefect_tpu.infra.accelerators import resolve
    from prefect_tpu.infra.backends import jobset_doctor
    from prefect_tpu.infra.backends.jobset_question import Question

    for name in accelerators:
        resolve(name)  # raises what is wrong with it before anybody is asked
    wanted, saved_output = completed(said)
    where = {name: wanted[name] for name in ("cluster", "zones") if wanted.get(name)}
    pod_settings({"image": "any", **where})  # so does this
    known = {name: value for name, value in wanted.items() if name in Question.__dataclass_fields__ and value}
    known |= {"zone": next(iter(wanted.get("zones") or ()), None)}
    found = anyio.run(jobset_doctor.examine, Question(accelerators=tuple(accelerators), **known))
    place = output or saved_output or _output_of_jobs()
    looks = {**machine(place), **({} if place else {"output": lambda: _NO_OUTPUT}), NAME: server}
    return [*look_at_all(looks), *found]


def _output_of_jobs() -> str:
    try:
        return default_output("jobset")
    except UsageError:
        return ""


_NO_OUTPUT = warn(
    "output", "none is named", "Name a bucket with --output gs://… or PREFECT_TPU_OUTPUT to have it tried."
)


def shown(found: Sequence[Check]) -> str:
    """A line per check, and below it what to do."""
    width = max(len(check.name) for check in found)
    lines = []
    for check in found:
        lines.append(f"{check.verdict:<4}  {check.name:<{width}}  {check.found}")
        if check.advice:
            lines.append(f"{'':<4}  {'':<{width}}  → {check.advice}")
    return "\n".join(lines)
