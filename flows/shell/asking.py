"""The commands that ask for a job: `run` and `render`."""

from __future__ import annotations

import typer

from prefect_tpu.flows.shell.options import AsJson, JobOptions, spelled_out


@spelled_out(JobOptions)
def run(options: JobOptions, as_json: AsJson = False) -> None:
    """Run a program on a slice until it is done."""
    from prefect_tpu.flows.run_command import carry_out
    from prefect_tpu.flows.shell.asked import request_of

    raise typer.Exit(carry_out(request_of(options), as_json=as_json))


@spelled_out(JobOptions)
def render(options: JobOptions, as_json: AsJson = False) -> None:
    """Show what `run` would send to each host; nothing is written and nothing starts."""
    from prefect_tpu.flows.shell.asked import request_of
    from prefect_tpu.flows.shell.render import written_plan

    typer.echo(written_plan(request_of(options), as_json=as_json))
