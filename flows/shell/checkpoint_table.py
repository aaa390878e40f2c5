"""Which checkpoints does a job have? `prefect-tpu checkpoints`."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.flows.shell.found import found
from prefect_tpu.infra.launcher.checkpoints import Told, told

COLUMNS = ("STEP", "ATTEMPT", "SIZE", "METRICS", "PLACE")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def show(name: str, output: str | None, *, as_json: bool) -> None:
    """Print the table, or all that the seals say."""
    storage, _ = found(name, output)
    listed = told(storage)
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in listed]))
    elif listed:
        console = Console(highlight=False)
        console.print(*columns(COLUMNS, [_cells(each) for each in listed]), sep="\n", soft_wrap=True)
    else:
        typer.echo(f"{name} has no whole checkpoint.", err=True)


def _cells(each: Told) -> list[str]:
    metrics = " ".join(f"{name}={value:.4g}" for name, value in each.metrics.items())
    return [str(each.point.step), str(each.point.attempt), size(each.bytes), metrics or "-", each.place]


def size(count: int) -> str:
    """Bytes as people read them: `3.4 MiB`."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.{1 if unit else 0}f} {UNITS[unit]}"
