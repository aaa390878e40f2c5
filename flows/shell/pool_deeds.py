"""What do `pool create`, `pool update` and `pool show` do, and what do they say?"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from prefect.client.schemas.objects import Worker, WorkPool

from prefect_tpu.flows.shell.pool_server import TYPE, pools
from prefect_tpu.flows.work_pool import template
from prefect_tpu.flows.work_pool.template import Change


def create(name: str, defaults: Mapping[str, Any], *, dry_run: bool, as_json: bool) -> None:
    """Make a pool with these defaults. Raises `UsageError` before anything is asked where they cannot be."""
    template.check_defaults(defaults)
    made = template.base_job_template(defaults)
    with pools() as server:
        server.check_free(name)
        if not dry_run:
            server.create(name, made)
    if as_json:
        typer.echo(json.dumps({"name": name, "type": TYPE, "created": not dry_run, "base_job_template": made}))
        return
    said = ", ".join(f"{key} {value!r}" for key, value in defaults.items())
    typer.echo(f"{'Would create' if dry_run else 'Created'} work pool {name!r}{f' with {said}' if said else ''}.")
    if not dry_run:
        typer.echo(f"Start a worker: prefect worker start --type {TYPE} --pool {name}")


def update(name: str, *, dry_run: bool, as_json: bool) -> None:
    """Bring the pool's template up to date."""
    with pools() as server:
        old = server.read(name).base_job_template
        new, changes = template.updated(old)
        is_due = new != old
        if is_due and not dry_run:
            server.update(name, new)
    if as_json:
        told = [change.to_json() for change in changes]
        typer.echo(json.dumps({"name": name, "updated": is_due and not dry_run, "changes": told}))
        return
    if not is_due:
        typer.echo(f"The template of work pool {name!r} is that of prefect-tpu {template.version()} already.")
    else:
        typer.echo(f"{'Would update' if dry_run else 'Updated'} work pool {name!r} to {template.version()}.")
    _say(changes)


def show(name: str, *, as_json: bool) -> None:
    """How the pool stands."""
    with pools() as server:
        pool, workers = server.read(name), server.workers(name)
    new, changes = template.updated(pool.base_job_template)
    if as_json:
        typer.echo(json.dumps(_told(pool, workers, changes, is_current=new == pool.base_job_template)))
        return
    made_by, now = template.made_by(pool.base_job_template), template.version()
    typer.echo(f"Work pool {name!r}, {_state(pool)}")
    typer.echo(f"Template made {f'by prefect-tpu {made_by}' if made_by else 'by hand'}; this is {now}.")
    if new != pool.base_job_template:
        typer.echo(f"`prefect-tpu pool update {name}` would bring it up to date.")
    _say(changes)
    now_utc = datetime.datetime.now(datetime.UTC)
    for worker in workers:
        typer.echo(f"Worker {worker.name!r}, {_status(worker)}, heard of {_ago(worker, now_utc)}")
    if not workers:
        typer.echo(f"No worker has asked for its runs: prefect worker start --type {TYPE} --pool {name}")


def _say(changes: Sequence[Change]) -> None:
    for change in changes:
        typer.echo(f"  {change}")


def _told(pool: WorkPool, workers: Sequence[Worker], changes: Sequence[Change], *, is_current: bool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "type": pool.type,
        "status": _state(pool),
        "template": {"made_by": template.made_by(pool.base_job_template), "is_current": is_current},
        "version": template.version(),
        "changes": [change.to_json() for change in changes],
        "workers": [
            {
                "name": worker.name,
                "status": _status(worker),
                "last_heartbeat": worker.last_heartbeat_time and worker.last_heartbeat_time.isoformat(),
            }
            for worker in workers
        ],
    }


def _state(pool: WorkPool) -> str:
    if pool.is_paused:
        return "paused"
    return str(pool.status.value).lower().replace("_", " ") if pool.status else "unknown"


def _status(worker: Worker) -> str:
    return str(getattr(worker.status, "value", worker.status) or "unknown").lower()


def _ago(worker: Worker, now: datetime.datetime) -> str:
    if worker.last_heartbeat_time is None:
        return "never"
    return f"{(now - worker.last_heartbeat_time).total_seconds():.0f} s ago"
