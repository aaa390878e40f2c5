"""Which checkpoints does a job have, or a program that ran in none? `prefect-tpu checkpoints`."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console

from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.flows.shell.found import found
from prefect_tpu.infra import layout
from prefect_tpu.infra.errors import NoSuchJob, UsageError
from prefect_tpu.infra.launcher.checkpoints import Told, told
from prefect_tpu.infra.start_points import checkpoints_of
from prefect_tpu.infra.storage import Storage, local_folder, open_storage

COLUMNS = ("STEP", "ATTEMPT", "SIZE", "METRICS", "PLACE")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def show(name: str, output: str | None, *, as_json: bool) -> None:
    """Print the table, or all that the seals say."""
    listed = told(_in_folder(name) if "/" in name else _of_job(name, output))
    if as_json:
        typer.echo(json.dumps([each.to_json() for each in listed]))
    elif listed:
        console = Console(highlight=False)
        console.print(*columns(COLUMNS, [_cells(each) for each in listed]), sep="\n", soft_wrap=True)
    else:
        typer.echo(f"{name} has no whole checkpoint.", err=True)


def _of_job(name: str, output: str | None) -> Storage:
    try:
        return checkpoints_of(found(name, output)[0])
    except NoSuchJob as exc:
        if Path(name).is_dir():
            raise NoSuchJob(f"{exc} For the folder {name!r} that lies here give ./{name}.") from exc
        raise


def _in_folder(place: str) -> Storage:
    """Of a program that ran in no job, the directory that it saved in; it may be a job's folder too."""
    storage = open_storage(place)
    folder = local_folder(storage)
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}: give the directory that a program saved in, or a job's name.")
    return storage if storage.changed(layout.JOB) is None else checkpoints_of(storage)


def _cells(each: Told) -> list[str]:
    metrics = " ".join(f"{name}={value:.4g}" for name, value in each.metrics.items())
    return [str(each.point.step), str(each.point.attempt), size(each.bytes), metrics or "-", each.place]


def size(count: int) -> str:
    """Bytes as people read them: `3.4 MiB`."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.{1 if unit else 0}f} {UNITS[unit]}"
