"""The commands for ready-made automations: `automations install`, `automations list`, `automations remove`."""

from __future__ import annotations

from typing import Annotated

import typer

from prefect_tpu.flows.shell.options import AsJson

app = typer.Typer(
    name="automations", help="What Prefect does by itself when slices come and go.", no_args_is_help=True,
    add_completion=False, context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

Names = Annotated[
    list[str] | None,
    typer.Argument(help="tell-on-preemption, cancel-on-stall, evaluate-after-training or pause-without-quota."),
]
OfPool = Annotated[
    str | None, typer.Option("--pool", metavar="POOL", help="Of this work pool alone.", show_default="of all runs")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be changed.")]


def install(
    names: Names = None,
    block: Annotated[
        str | None, typer.Option(metavar="TYPE/NAME", help="What notifies, such as slack-webhook/alerts.")
    ] = None,
    pool: OfPool = None,
    deployment: Annotated[
        str | None,
        typer.Option(metavar="FLOW/NAME", help="What evaluates; it has a parameter `output`."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Install automations, all that can be made of what is given; those that are there are brought up to date."""
    from prefect_tpu.flows.shell.automation_deeds import Sources, install

    install(names or (), Sources(block=block, pool=pool, deployment=deployment), dry_run=dry_run, as_json=as_json)


def list_automations(as_json: AsJson = False) -> None:
    """List the ready-made automations: which are installed, for which pool, and what each does."""
    from prefect_tpu.flows.shell.automation_deeds import show

    show(as_json=as_json)


def remove(names: Names = None, pool: OfPool = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Remove automations that were installed here, all without a name; nobody else's."""
    from prefect_tpu.flows.shell.automation_deeds import remove

    remove(names or (), pool, dry_run=dry_run, as_json=as_json)


app.command("install")(install)
app.command("list")(list_automations)
app.command("remove")(remove)
