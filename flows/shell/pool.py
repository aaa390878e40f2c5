"""The commands for work pools of the type `tpu-slice`: `pool create`, `pool update`, `pool show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from prefect_tpu.flows.shell import completion
from prefect_tpu.flows.shell.options import AsJson, spelled_out

app = typer.Typer(
    name="pool", help="Work pools whose flows run on slices.", no_args_is_help=True, add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

PoolName = Annotated[str, typer.Argument(help="Name of the work pool.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be changed.")]
BY_DEFAULT = "What its runs have, unless they say otherwise"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """What `pool create` takes, as it was typed."""

    name: PoolName
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="local|jobset|pathways",
            help="Processes of the worker's machine, pods of a cluster, or such pods driven by one flow.",
            show_default="jobset where anything of pods is said, else local",
            autocompletion=completion.backends,
            rich_help_panel=BY_DEFAULT,
        ),
    ] = None
    accelerator: Annotated[
        str | None,
        typer.Option(
            "--accelerator", "-a", help="Such as v6e-16.", show_default="cpu", autocompletion=completion.accelerators,
            rich_help_panel=BY_DEFAULT,
        ),
    ] = None  # fmt: skip
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CONTEXT",
            help="A kubeconfig context, gke://project/location/cluster, or block:NAME.",
            show_default="the one the worker runs in, else kubectl's",
            rich_help_panel=BY_DEFAULT,
        ),
    ] = None
    image: Annotated[
        str | None,
        typer.Option(help="What each host's container runs: Python, Prefect and packages.", rich_help_panel=BY_DEFAULT),
    ] = None
    namespace: Annotated[
        str | None,
        typer.Option(help="Where the objects are made.", show_default="default", rich_help_panel=BY_DEFAULT),
    ] = None
    output: Annotated[
        str | None,
        typer.Option(
            help="Folder of all runs.", show_default="the saved cluster's, else the worker's own",
            rich_help_panel=BY_DEFAULT,
        ),
    ] = None  # fmt: skip
    default: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Of any other variable, as JSON or text, such as max_preemptions=3; again for another.",
            rich_help_panel=BY_DEFAULT,
        ),
    ] = None

    @property
    def defaults(self) -> dict[str, Any]:
        """Variable → its default, of those that were said. Raises `UsageError` for words that mean nothing."""
        from prefect_tpu.flows.shell.named import named_values

        names = ("backend", "accelerator", "cluster", "image", "namespace", "output")
        said = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {**said, **named_values("--default", self.default or ())}


@spelled_out(PoolOptions)
def create(options: PoolOptions, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Make a work pool whose flows run on slices; then start a worker of it."""
    from prefect_tpu.flows.shell.pool_deeds import create

    create(options.name, options.defaults, dry_run=dry_run, as_json=as_json)


def update(name: PoolName, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Bring a pool's template up to date with this version; what somebody changed in it stays."""
    from prefect_tpu.flows.shell.pool_deeds import update

    update(name, dry_run=dry_run, as_json=as_json)


def show(name: PoolName, as_json: AsJson = False) -> None:
    """Say how a pool stands: its workers, and how its template differs from this version's."""
    from prefect_tpu.flows.shell.pool_deeds import show

    show(name, as_json=as_json)


app.command("create")(create)
app.command("update")(update)
app.command("show")(show)
