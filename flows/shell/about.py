"""The commands that look at no job: `accelerators`, `version`, `doctor`, `quota`, and the name alone."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from prefect_tpu.flows.shell import completion
from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.shell.options import IN_CLUSTER, AsJson, Cluster, Output, spelled_out
from prefect_tpu.infra.errors import UsageError


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


Zone = Annotated[
    str | None,
    typer.Option(help="Where its nodes would be.", show_default="the cluster's own", rich_help_panel=IN_CLUSTER),
]
MakePools = Annotated[
    bool,
    typer.Option(
        "--make-pools", help="As for a job with it, which takes no nodes that are there.", rich_help_panel=IN_CLUSTER
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What `doctor` takes, as it was typed."""

    output: Output = None
    accelerator: Annotated[
        list[str] | None,
        typer.Option("--accelerator", "-a", help="Count its slices; again for another.", rich_help_panel=IN_CLUSTER),
    ] = None
    cluster: Cluster = None
    zone: Zone = None
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="local|jobset|pathways",
            help="Look at this machine as hosts of jobs, or at a cluster.",
            show_default="jobset with any option of this list, else local",
            autocompletion=completion.backends,
            rich_help_panel=IN_CLUSTER,
        ),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(help="Where jobs would run.", show_default="default", rich_help_panel=IN_CLUSTER),
    ] = None
    queue: Annotated[
        str | None, typer.Option(help="The Kueue queue that jobs would name.", rich_help_panel=IN_CLUSTER)
    ] = None
    service_account: Annotated[
        str | None, typer.Option(metavar="NAME", help="That jobs would name.", rich_help_panel=IN_CLUSTER)
    ] = None
    pull_secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="That jobs would name; again for another.", rich_help_panel=IN_CLUSTER),
    ] = None
    make_pools: MakePools = False

    @property
    def pods(self) -> dict[str, Any]:
        """What was said of pods, by the names of their settings."""
        names = ("cluster", "namespace", "queue", "service_account", "make_pools")
        said: dict[str, Any] = {name: getattr(self, name) for name in names}
        said |= {"zones": (self.zone,) if self.zone else None, "pull_secrets": tuple(self.pull_secret or ())}
        return {name: value for name, value in said.items() if value}

    @property
    def means_cluster(self) -> bool:
        if self.backend not in (None, "local", "jobset", "pathways"):
            raise UsageError(f"--backend {self.backend!r} is not known: choose local, jobset or pathways.")
        said = [*self.pods, *(["accelerator"] if self.accelerator else [])]
        if self.backend == "local" and said:
            raise UsageError(f"--backend local looks at no cluster, and {', '.join(said)} was given: leave one out.")
        return self.backend in ("jobset", "pathways") or bool(said)


@spelled_out(DoctorOptions)
def doctor(options: DoctorOptions, as_json: AsJson = False) -> None:
    """Look whether this machine, its packages, the Prefect server and a cluster are fit for jobs; change nothing."""
    from prefect_tpu.flows.shell.checks import is_looking
    from prefect_tpu.flows.shell.doctor import examine, examine_cluster, shown

    if sys.stderr.isatty() and not as_json:
        typer.echo("Looking, for a minute at most.", err=True)
    if options.means_cluster:
        found = examine_cluster(options.output, options.pods, options.accelerator or ())
    else:
        found = examine(options.output)
    typer.echo(json.dumps([check.to_json() for check in found]) if as_json else shown(found))
    status = ExitStatus.FAILED if any(check.has_failed for check in found) else ExitStatus.SUCCEEDED
    if is_looking():
        sys.stdout.flush()
        os._exit(status)
    raise typer.Exit(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOptions:
    """What `quota` takes, as it was typed."""

    accelerator: Annotated[
        list[str],
        typer.Option("--accelerator", "-a", help="Such as v6e-16; again for another.", show_default=False),
    ]
    slices: Annotated[int, typer.Option(min=1, help="How many slices of it.")] = 1
    cluster: Cluster = None
    zone: Zone = None
    namespace: Annotated[
        str | None, typer.Option(help="Where the queue is.", show_default="default", rich_help_panel=IN_CLUSTER)
    ] = None
    queue: Annotated[
        str | None, typer.Option(help="The Kueue queue that jobs would name.", rich_help_panel=IN_CLUSTER)
    ] = None
    make_pools: MakePools = False

    @property
    def pods(self) -> dict[str, Any]:
        """What was said of pods, by the names of their settings."""
        said: dict[str, Any] = {name: getattr(self, name) for name in ("cluster", "namespace", "queue")}
        said |= {"zones": (self.zone,) if self.zone else None, "make_pools": self.make_pools or None}
        return {name: value for name, value in said.items() if value}


@spelled_out(QuotaOptions)
def quota(options: QuotaOptions, as_json: AsJson = False) -> None:
    """Say whether quotas of Google Cloud and of a queue allow a slice; exit status 1 where none of those named fits."""
    from prefect_tpu.flows.shell.quota import ask, does_fit, shown

    found = ask(options.pods, options.accelerator, options.slices)
    typer.echo(json.dumps([answer.to_json() for answer in found]) if as_json else shown(found))
    raise typer.Exit(ExitStatus.SUCCEEDED if does_fit(found) else ExitStatus.FAILED)
