"""The command that asks Google's TPU compiler about a program: `compile`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from prefect_tpu.flows.shell import completion
from prefect_tpu.flows.shell.options import AsJson, spelled_out


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions:
    """What `compile` takes, as it was typed."""

    target: Annotated[
        str,
        typer.Argument(
            help="path.py:function, pkg.mod:function or a script path.py, whose step is a tpu.step; or a function"
            " lower(mesh, …)."
        ),
    ]
    arguments: Annotated[list[str] | None, typer.Argument(help="Of a script, after '--'.")] = None
    accelerator: Annotated[
        list[str],
        typer.Option(
            "--accelerator",
            "-a",
            help="Such as v6e-16; again for another. v5p-* is the smallest size that the step fits.",
            show_default=False,
            autocompletion=completion.accelerators,
        ),
    ]
    slices: Annotated[int, typer.Option(min=1, help="How many slices the program spans.")] = 1
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="For the function.")
    ] = None
    data: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]PATH", help="A file or folder that the program finds as data.")
    ] = None
    mesh: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS=SIZE,…",
            help="Of a function lower(mesh, …), and what tpu.mesh() gives a program that says none.",
            show_default="one axis, data",
        ),
    ] = None
    within: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS=host|slice", help="What is exchanged along this axis must stay so close."),
    ] = None
    fit: Annotated[
        str,
        typer.Option(
            metavar="PARAM", help="The parameter that is the batch of all chips: find the largest.", show_default="none"
        ),
    ] = ""


@spelled_out(CompileOptions)
def compile_step(options: CompileOptions, as_json: AsJson = False) -> None:
    """Say what a program's step would take on a TPU slice, before there is one. Status 1 where it does not fit."""
    from prefect_tpu.flows.shell.compile_deeds import carry_out

    raise typer.Exit(carry_out(options, as_json=as_json))
