"""The shell command `prefect-tpu`: the outer door. Each command parses, calls, and leaves with an exit code."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from typing import Annotated

import typer

from prefect_tpu.flows.streams import make_lasting
from prefect_tpu.infra.errors import PrefectTpuError, UsageError

FAILED, WRONG_CALL = 1, 2

app = typer.Typer(
    name="prefect-tpu",
    help="Train on TPU slices from Prefect.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def run(
    target: Annotated[str, typer.Argument(help="path.py:function, pkg.mod:function, a script path.py, or a command.")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Of a script or command, after '--'.")] = None,
    accelerator: Annotated[
        list[str] | None, typer.Option("--accelerator", "-a", help="Such as v6e-16; again for the next best.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the job; the same name again goes on where it stopped.")] = None,
    param: Annotated[list[str] | None, typer.Option("--param", "-p", help="name=value for the function.")] = None,
    data: Annotated[list[str] | None, typer.Option(help="name=path of a file or folder to lay down.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder of all jobs.")] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 600.0,
    drill: Annotated[list[str] | None, typer.Option(help="preempt|kill|fail@step=N[,host=K].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The result as one JSON object on the last line.")] = False,
) -> None:
    """Run a program on a slice until it is done.

    Exit status: 0 succeeded, 1 the job failed, 2 the call was wrong, 130 interrupted.
    """
    from prefect_tpu.flows.run_command import Wish, carry_out  # other commands need none of it

    wish = Wish(
        target=target,
        arguments=tuple(arguments or ()),
        accelerators=tuple(accelerator or ("cpu",)),
        name=name,
        params=_pairs(param, "--param"),
        data={key: str(value) for key, value in _pairs(data, "--data").items()},
        output=output,
        checkpoint_every=checkpoint_every,
        drills=tuple(drill or ()),
    )
    raise typer.Exit(carry_out(wish, as_json=as_json))


@app.command()
def accelerators(
    name: Annotated[str | None, typer.Argument(help="Such as v5p-32; all of them by default.")] = None,
    dialect: Annotated[str, typer.Option(help="google or chips: what the number in a name counts.")] = "google",
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Say what accelerator names mean: chips, topology, hosts, machine type."""
    from prefect_tpu.infra.accelerator_report import render, rows
    from prefect_tpu.infra.accelerators import curated_names

    found = rows([name] if name else curated_names(dialect), dialect)
    if as_json:
        typer.echo(json.dumps(found[0] if name else found))
    else:
        typer.echo(render(found))


@app.command()
def version() -> None:
    """Say which prefect-tpu this is."""
    typer.echo(metadata.version("prefect-tpu"))


def _pairs(given: list[str] | None, option: str) -> dict[str, object]:
    """`name=value` pairs; a value that reads as JSON is one, anything else is text."""
    pairs: dict[str, object] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"{option} {text!r} is not name=value, such as {option} steps=100.")
        pairs[name] = _value(value)
    return pairs


def _value(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def main() -> None:
    """Run the command line; errors of ours become one line on standard error and an exit code."""
    make_lasting()
    try:
        app()
    except PrefectTpuError as exc:
        typer.echo(f"prefect-tpu: {exc}", err=True)
        sys.exit(WRONG_CALL if isinstance(exc, UsageError) else FAILED)
