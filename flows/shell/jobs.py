"""The commands for jobs that are there: `list`, `status`, `logs`, `checkpoints`, `attach`, `stop`, `reap`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from prefect_tpu.flows.shell import completion
from prefect_tpu.flows.shell.options import IN_CLUSTER, AsJson, Name, Output, Timeout

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written, to the job's end.")]


def list_jobs(
    output: Output = None,
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only jobs in this state; again for another one.", autocompletion=completion.states),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs of an output, the newest last."""
    from prefect_tpu.flows.shell.listing import listed, rows_of

    rows = rows_of(output, state or ())
    if as_json:
        typer.echo(json.dumps([row.to_json() for row in rows]))
    else:
        listed(rows)


def status(
    name: Name,
    output: Output = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again as it changes, to the job's end.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say how one job stands: hosts, steps, attempts, files, and what to do next."""
    from prefect_tpu.flows.shell.sheet import show

    show(name, output, watch=watch, as_json=as_json)


def logs(
    name: Name,
    output: Output = None,
    host: Annotated[
        list[int] | None, typer.Option(min=0, help="Of this host; again for another.", show_default="0")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Of all hosts.")] = False,
    attempt: Annotated[int | None, typer.Option(min=1, help="Of this attempt.", show_default="the newest")] = None,
    follow: Follow = False,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Begin with so many last lines of each host.", show_default="all")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a job's hosts wrote; the leader's lines by default."""
    from prefect_tpu.flows.shell.log_lines import print_lines
    from prefect_tpu.infra.launcher.host_logs import Wanted

    wanted = Wanted(hosts=None if every else tuple(host or (0,)), attempt=attempt, follow=follow, tail=tail)
    print_lines(name, output, wanted, as_json=as_json)


def checkpoints(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the job; with a / in it, the folder that a program which ran in no job saved in.",
            autocompletion=completion.job_names,
        ),
    ],
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """List a job's whole checkpoints, the newest first: metrics, and the place that --start-from takes."""
    from prefect_tpu.flows.shell.checkpoint_table import show

    show(name, output, as_json=as_json)


def attach(name: Name, output: Output = None, timeout: Timeout = None, as_json: AsJson = False) -> None:
    """Follow a job to its end; where nobody drives it any more, this command does."""
    from prefect_tpu.flows.shell.durations import seconds
    from prefect_tpu.flows.shell.found import found
    from prefect_tpu.flows.shell.running import attach

    storage, job = found(name, output)
    limit = None if timeout is None else seconds(timeout, "--timeout")
    raise typer.Exit(attach(storage, job, as_json=as_json, timeout=limit))


def stop(
    name: Name,
    output: Output = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until its hosts have left.")] = True,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Stop a job: its hosts save and leave. Running the same name again goes on."""
    from prefect_tpu.flows.shell.durations import seconds
    from prefect_tpu.flows.shell.stopping import stop

    limit = None if timeout is None else seconds(timeout, "--timeout")
    raise typer.Exit(stop(name, output, wait=wait, timeout=limit, as_json=as_json))


def reap(
    output: Output = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONTEXT",
            help="Look in this cluster too; again for another one.",
            show_default="those of the output's jobs",
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option(help="Where in these clusters JobSets are looked for.", rich_help_panel=IN_CLUSTER)
    ] = "default",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be ended and why.")] = False,
    as_json: AsJson = False,
) -> None:
    """End what ended jobs left behind: processes, JobSets, node pools, half-written files. Never what lives."""
    from prefect_tpu.flows.shell.reaping import reap

    places = tuple((name, namespace) for name in cluster or ())
    raise typer.Exit(reap(output, places, dry_run=dry_run, as_json=as_json))
