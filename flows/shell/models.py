"""The commands for models that are trained again and again: `models list`, `models show`, `models rollback`."""

from __future__ import annotations

from typing import Annotated

import typer

from prefect_tpu.flows.shell.options import AsJson, Output

app = typer.Typer(
    name="models", help="Models that are trained again and again.", no_args_is_help=True, add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")]


def list_models(output: Output = None, as_json: AsJson = False) -> None:
    """List the models of an output, with the champion of each."""
    from prefect_tpu.flows.shell.model_deeds import list_models

    list_models(output, as_json=as_json)


def show(
    model: ModelName,
    output: Output = None,
    newest: Annotated[int, typer.Option(min=1, help="How many records of its history.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Say which version is the champion, where it lies, and how it came to be that."""
    from prefect_tpu.flows.shell.model_deeds import show

    show(model, output, newest, as_json=as_json)


def rollback(
    model: ModelName,
    output: Output = None,
    to: Annotated[
        int | None, typer.Option(min=1, metavar="VERSION", help="Which version.", show_default="the champion before")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; kept in the history.")] = "by hand",
    as_json: AsJson = False,
) -> None:
    """Make an earlier champion the champion again."""
    from prefect_tpu.flows.shell.model_deeds import rollback

    rollback(model, output, to, reason, as_json=as_json)


app.command("list")(list_models)
app.command("show")(show)
app.command("rollback")(rollback)
