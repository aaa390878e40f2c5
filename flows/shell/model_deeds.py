"""What do `models list`, `models show` and `models rollback` do, and what do they say?"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console

from prefect_tpu.flows.shell.columns import columns
from prefect_tpu.infra.models.records import Champion
from prefect_tpu.infra.models.registry import Registry, find_registry, model_names, roll_back
from prefect_tpu.infra.models.story import HEAD, numbers_in_words, rows, when
from prefect_tpu.infra.request import default_output


def list_models(output: str | None, *, as_json: bool) -> None:
    """A line for each model."""
    place = output or default_output()
    found = [(name, Registry(place, name).champion()) for name in model_names(place)]
    if as_json:
        typer.echo(json.dumps([{"model": name, "champion": _told(champion)} for name, champion in found]))
        return
    if not found:
        typer.echo(f"There are no models in {place}: the flow `retrain` makes them.", err=True)
        return
    _table(("MODEL", "CHAMPION", "SINCE", "MEASURED"), [_line(name, champion) for name, champion in found])


def show(model: str, output: str | None, newest: int, *, as_json: bool) -> None:
    """The champion and the newest records of one model's history."""
    registry = find_registry(output or default_output(), model)
    champion, standing, entries = registry.champion(), registry.look(), registry.history(newest)
    if as_json:
        told = {"model": model, "champion": _told(champion), "open": standing.open and asdict(standing.open)}
        typer.echo(json.dumps({**told, "history": [asdict(entry) for entry in entries]}))
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
    return None if champion is None else asdict(champion)


def _line(name: str, champion: Champion | None) -> tuple[str, ...]:
    if champion is None:
        return name, "none", "", ""
    return name, str(champion.number), when(champion.since), numbers_in_words(champion.metrics)


def _table(head: tuple[str, ...], lines: list[tuple[str, ...]]) -> None:
    console = Console(highlight=False)
    console.print(*columns(head, lines), sep="\n", soft_wrap=not console.is_terminal)
