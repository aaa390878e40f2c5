"""What do `automations install`, `automations list` and `automations remove` do, and what do they say?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer
from prefect.events.schemas.automations import Automation
from rich.console import Console

from prefect_tpu.flows.automations import DOES, NEEDS, Given, Ready, is_lacking, made, parsed, title
from prefect_tpu.flows.shell.automation_server import Automations, Done, automations
from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.infra.errors import UsageError

COLUMNS = ("NAME", "POOL", "STATE", "WHAT IT DOES")
_WOULD = {Done.INSTALLED: "install", Done.UPDATED: "update", Done.REMOVED: "remove"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What automations are to be made of, as it was typed."""

    block: str | None
    pool: str | None
    deployment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What became of one, or would. why: it was left out."""

    ready: Ready
    automation: str
    done: Done
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.ready, "automation": self.automation, "done": self.done, "why": self.why or None}

    def in_words(self, *, dry_run: bool) -> str:
        if self.done is Done.LEFT_OUT:
            return f"Left out {self.ready}: it needs {self.why}."
        if self.done is Done.UNCHANGED:
            return f"Automation {self.automation!r} is up to date already."
        did = f"Would {_WOULD[self.done]}" if dry_run else self.done.capitalize()
        return f"{did} automation {self.automation!r}."


def install(names: Sequence[str], sources: Sources, *, dry_run: bool, as_json: bool) -> None:
    """Put these there, or all that can be made. Raises `UsageError` for one that was named and lacks something."""
    wanted = _known(names)
    with automations() as server:
        given = server.given(sources.block, sources.pool, sources.deployment)
        for ready in wanted:
            if is_lacking(ready, given):
                raise UsageError(f"{ready} needs {NEEDS[ready]}.")
        deeds = [_install(server, ready, given, dry_run=dry_run) for ready in wanted or tuple(Ready)]
    _say(deeds, dry_run=dry_run, as_json=as_json)


def _install(server: Automations, ready: Ready, given: Given, *, dry_run: bool) -> Deed:
    name = title(ready, given.pool.name if given.pool else None)
    if is_lacking(ready, given):
        return Deed(ready=ready, automation=name, done=Done.LEFT_OUT, why=NEEDS[ready])
    return Deed(ready=ready, automation=name, done=server.put(made(ready, given), dry_run=dry_run))


def remove(names: Sequence[str], pool: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Remove these of that pool, or of all."""
    wanted = _known(names) or tuple(Ready)
    deeds = []
    with automations() as server:
        for one in server.all():
            ready, of = _ours(one)
            if ready not in wanted or (pool is not None and of != pool):
                continue
            if not dry_run:
                server.remove(one)
            deeds.append(Deed(ready=ready, automation=one.name, done=Done.REMOVED))
    _say(deeds, dry_run=dry_run, as_json=as_json)
    if not deeds and not as_json:
        typer.echo("No such automation is installed.")


def show(*, as_json: bool) -> None:
    """Which there are, and which of them are installed."""
    with automations() as server:
        found = server.all()
    installed = {ready: [one for one in found if _ours(one)[0] is ready] for ready in Ready}
    if as_json:
        typer.echo(json.dumps([row for ready in Ready for row in _rows_as_json(ready, installed[ready])]))
        return
    cells = [row for ready in Ready for row in _rows(ready, installed[ready])]
    console = Console(highlight=False)
    console.print(*columns(COLUMNS, cells), sep="\n", soft_wrap=not console.is_terminal)


def _rows(ready: Ready, found: Sequence[Automation]) -> list[list[str]]:
    rows = [[ready, _ours(one)[1] or "-", "on" if one.enabled else "off", DOES[ready]] for one in found]
    return rows or [[ready, "-", "not installed", DOES[ready]]]


def _rows_as_json(ready: Ready, found: Sequence[Automation]) -> list[dict[str, Any]]:
    about = {"name": ready, "does": DOES[ready]}
    rows = [
        {**about, "installed": True, "automation": one.name, "pool": _ours(one)[1], "enabled": one.enabled}
        for one in found
    ]
    return rows or [{**about, "installed": False}]


def _ours(one: Automation) -> tuple[Ready, str | None]:
    found = parsed(one.name)
    assert found is not None, "the server gives only ours"
    return found


def _known(names: Sequence[str]) -> tuple[Ready, ...]:
    """Each once, in the order of the list."""
    for name in names:
        if name not in list(Ready):
            raise UsageError(f"There is no ready-made automation {name!r}: choose from {', '.join(Ready)}.")
    return tuple(ready for ready in Ready if ready in names)


def _say(deeds: Sequence[Deed], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"dry_run": dry_run, "automations": [deed.to_json() for deed in deeds]}))
        return
    for deed in deeds:
        typer.echo(deed.in_words(dry_run=dry_run))
