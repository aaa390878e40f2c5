"""The commands that look at no job: `accelerators`, `version`, `doctor`, and the name alone."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from prefect_tpu.flows.shell import completion
from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.shell.options import AsJson, Output


def _say_version(is_asked: bool) -> None:
    if is_asked:
        version()
        raise typer.Exit(ExitStatus.SUCCEEDED)


def top(
    show_version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_say_version, help="Say which prefect-tpu this is."),
    ] = False,
) -> None:
    """Train on TPU slices from Prefect."""


def accelerators(
    name: Annotated[
        str | None,
        typer.Argument(help="Such as v5p-32; all of them by default.", autocompletion=completion.accelerators),
    ] = None,
    dialect: Annotated[str, typer.Option(help="google or chips: what the number in a name counts.")] = "google",
    as_json: AsJson = False,
) -> None:
    """Say what accelerator names mean: chips, topology, hosts, machine type."""
    from prefect_tpu.infra.accelerator_report import render, rows
    from prefect_tpu.infra.accelerators import curated_names

    found = rows([name] if name else curated_names(dialect), dialect)
    if as_json:
        typer.echo(json.dumps(found[0] if name else found))
    else:
        typer.echo(render(found))


def version(as_json: AsJson = False) -> None:
    """Say which prefect-tpu this is."""
    from importlib import metadata

    found = metadata.version("prefect-tpu")
    typer.echo(json.dumps({"version": found}) if as_json else found)


def doctor(output: Output = None, as_json: AsJson = False) -> None:
    """Look whether this machine, its packages and the Prefect server are fit for jobs; change nothing."""
    from prefect_tpu.flows.shell.doctor import examine, shown

    found = examine(output)
    typer.echo(json.dumps([check.to_json() for check in found]) if as_json else shown(found))
    raise typer.Exit(ExitStatus.FAILED if any(check.has_failed for check in found) else ExitStatus.SUCCEEDED)
