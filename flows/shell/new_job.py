"""The commands that ask for a job: `run` and `render`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.shell.options import AsJson, JobOptions, spelled_out


@spelled_out(JobOptions)
def run(
    options: JobOptions,
    background: Annotated[bool, typer.Option("--detach", "-d", help="Come back at once; the job runs on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a program on a slice until it is done."""
    from prefect_tpu.flows.shell.asking import request_of
    from prefect_tpu.flows.shell.running import carry_out, detach

    do = detach if background else carry_out
    raise typer.Exit(do(request_of(options), as_json=as_json))


@spelled_out(JobOptions)
def render(options: JobOptions, as_json: AsJson = False) -> None:
    """Show what `run` would send to each host; nothing is written and nothing starts. Status 1 where nothing would."""
    from prefect_tpu.flows.shell.asking import request_of
    from prefect_tpu.flows.shell.render import written_plan
    from prefect_tpu.infra.preview import preview

    request = request_of(options)
    found = preview(request)
    typer.echo(written_plan(found, request, as_json=as_json, is_for_eyes=sys.stdout.isatty()))
    if found.failure is not None:
        typer.echo(f"prefect-tpu: Nothing would start: {found.failure}\n{found.failure.advice}", err=True)
        raise typer.Exit(ExitStatus.FAILED)
