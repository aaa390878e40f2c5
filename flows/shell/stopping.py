"""How is a job stopped from a shell? The wish comes first; who drives obeys it, and where nobody does, we drive."""

from __future__ import annotations

import json

import typer

from prefect_tpu.flows.background import start_driver
from prefect_tpu.flows.shell.ending import verdict
from prefect_tpu.flows.shell.exit_status import ExitStatus
from prefect_tpu.flows.shell.found import found
from prefect_tpu.flows.shell.running import follow, there
from prefect_tpu.infra.job import JobResult
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.lease import Driver, driver_of
from prefect_tpu.infra.storage import Storage


def stop(name: str, output: str | None, *, wait: bool, timeout: float | None, as_json: bool) -> ExitStatus:
    """Stop a job. Succeeds once nothing of it runs; without `wait`, once whoever drives it has been told."""
    storage, job = found(name, output)
    if (end := history.read_result(storage)) is not None:
        return _tell(end, as_json)
    history.ask_to_stop(storage, "asked at the shell")
    if not wait:
        driver = driver_of(storage) or _begun(storage)
        told = {"job": name, "state": "stopping", "driver": driver and str(driver)}
        who = driver or "a driver in the background"
        doubt = "" if driver is None or driver.is_here else ", if it still lives: that cannot be seen from this machine"
        typer.echo(json.dumps(told) if as_json else f"{name} is told to stop; {who} sees to it{doubt}.")
        return ExitStatus.SUCCEEDED
    result, _ = follow(there(storage, job, timeout))
    return _tell(result, as_json)


def _begun(storage: Storage) -> Driver | None:
    """A driver in the background, where nobody drove the job; None where that one has ended it already."""
    start_driver(storage)
    return driver_of(storage)


def _tell(end: JobResult, as_json: bool) -> ExitStatus:
    typer.echo(json.dumps(end.to_json()) if as_json else verdict(end))
    return ExitStatus.SUCCEEDED
