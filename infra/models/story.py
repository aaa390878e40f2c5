"""How did a model come along? Its history as a table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence

from prefect_tpu.infra.models.records import Became, Entry
from prefect_tpu.infra.models.registry import Registry
from prefect_tpu.infra.summary import linked

SHOWN = 20
HEAD = ("when", "version", "what became of it", "why", "champion")
WORDS = {
    Became.PROMOTED: "promoted",
    Became.KEPT: "not promoted",
    Became.FAILED: "failed",
    Became.DECLINED: "declined",
    Became.ABANDONED: "given up",
    Became.ROLLED_BACK: "rolled back",
}


def rows(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    """A row for each record: as `HEAD`."""
    return [
        (
            when(entry.at),
            "" if entry.candidate is None else str(entry.candidate),
            WORDS[entry.became],
            " ".join(entry.reason.split()),  # what a person wrote may have lines
            "" if entry.champion is None else str(entry.champion),
        )
        for entry in entries
    ]


def when(at: float) -> str:
    """A moment in seconds since the epoch, for people here."""
    return datetime.datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def numbers_in_words(metrics: Mapping[str, float]) -> str:
    """What a judge measured."""
    return ", ".join(f"{name} {number:.6g}" for name, number in sorted(metrics.items()))


def as_markdown(registry: Registry) -> str:
    """The newest records, and where the champion is."""
    champion = registry.champion()
    parts = [f"# Model {registry.model}"]
    if champion is not None:
        measured = numbers_in_words(champion.metrics)
        parts.append(f"Champion: version {champion.number} ({measured}), {linked(champion.checkpoint)}")
    lines = ["| " + " | ".join(HEAD) + " |", "| --- " * len(HEAD) + "|"]
    lines += [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows(registry.history(SHOWN))
    ]
    return "\n\n".join([*parts, "\n".join(lines)])
