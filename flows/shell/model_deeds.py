"""What do `models list`, `models show` and `models rollback` do, and what do they say?"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console

from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.flows.shell.listing import UNREADABLE
from prefect_tpu.infra.contract import ContractError
from prefect_tpu.infra.models.going_back import roll_back
from prefect_tpu.infra.models.records import Champion, in_json
from prefect_tpu.infra.models.registry import MOST_AT_ONCE, Registry, find_registry, model_names
from prefect_tpu.infra.models.story import HEAD, numbers_in_words, rows, when
from prefect_tpu.infra.request import default_output


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model. problem: why its champion cannot be read."""

    name: str
    champion: Champion | None
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        told = {"model": self.name, "champion": _told(self.champion)}
        return {**told, "error": self.problem} if self.problem else told

    def cells(self) -> tuple[str, ...]:
        if self.champion is None:
            return self.name, UNREADABLE if self.problem else "none", "", ""
        champion = self.champion
        return self.name, str(champion.number), when(champion.since), numbers_in_words(champion.metrics)


def list_models(output: str | None, *, as_json: bool) -> None:
    """A line for each model. One that is damaged does not hide the others."""
    place = output or default_output()
    with ThreadPoolExecutor(MOST_AT_ONCE) as side_by_side:
        found = list(side_by_side.map(lambda name: _row(place, name), model_names(place)))
    if as_json:
        typer.echo(json.dumps([row.to_json() for row in found]))
        return
    if not found:
        typer.echo(f"There are no models in {place}: the flow `retrain` makes them.", err=True)
        return
    _table(("MODEL", "CHAMPION", "SINCE", "MEASURED"), [row.cells() for row in found])
    for row in found:
        if row.problem:
            typer.echo(f"{row.name}: {row.problem}", err=True)


def _row(output: str, name: str) -> Row:
    try:
        return Row(name=name, champion=Registry(output, name).champion())
    except ContractError as exc:
        return Row(name=name, champion=None, problem=str(exc))


def show(model: str, output: str | None, newest: int, *, as_json: bool) -> None:
    """The champion and the newest records of one model's history."""
    registry = find_registry(output or default_output(), model)
    champion, standing, entries = registry.champion(), registry.look(), registry.history(newest)
    if as_json:
        told = {"model": model, "champion": _told(champion), "open": standing.open and in_json(standing.open)}
        typer.echo(json.dumps({**told, "history": [in_json(entry) for entry in entries]}))
        return
    if champion is None:
        typer.echo(f"Model {model!r} has no champion yet.")
    else:
        typer.echo(f"Champion: version {champion.number} ({numbers_in_words(champion.metrics)})")
        typer.echo(f"It lies at {champion.checkpoint}")
    if standing.open is not None:
        typer.echo(f"Candidate {standing.open.number} is not judged yet: {standing.open.reason}.")
    if entries:
        _table(tuple(word.upper() for word in HEAD), rows(entries))


def rollback(model: str, output: str | None, to: int | None, reason: str, *, as_json: bool) -> None:
    """Make an earlier champion the champion again."""
    champion = roll_back(find_registry(output or default_output(), model), to, reason, time.time())
    if as_json:
        typer.echo(json.dumps({"model": model, "champion": _told(champion)}))
        return
    typer.echo(f"Version {champion.number} is the champion of model {model!r} again: {champion.checkpoint}")


def _told(champion: Champion | None) -> dict[str, Any] | None:
    return None if champion is None else in_json(champion)


def _table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> None:
    console = Console(highlight=False)
    console.print(*columns(head, lines), sep="\n", soft_wrap=not console.is_terminal)
