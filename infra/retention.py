"""Which checkpoints stay, and which may go? Each seal carries the rule of the program that wrote it.

So whoever prunes, the launcher of a job or a program outside one, needs to know nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from prefect_tpu.infra import layout, seals
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.value_words import in_words

KEPT = 3  # newest checkpoints that stay where nobody says how many
MODES = ("min", "max")
RULE, METRICS = "keeps", "metrics"  # what a seal calls them


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The `count` checkpoints with the least or the greatest values of a metric."""

    metric: str
    mode: str
    count: int

    def __post_init__(self) -> None:
        is_named = isinstance(self.metric, str) and self.metric
        if not is_named or self.mode not in MODES or not _is_count(self.count):
            raise UsageError(
                f"best=({self.metric!r}, {self.mode!r}, {in_words(self.count)}): give the name of a metric, 'min' or"
                " 'max', and how many checkpoints to keep, 1 at least."
            )

    def order(self, value: float) -> float:
        """Lower is better."""
        return -value if self.mode == "max" else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """newest: how many of the newest checkpoints stay. best: which others do."""

    newest: int = KEPT
    best: Best | None = None

    def __post_init__(self) -> None:
        if not _is_count(self.newest):
            raise UsageError(f"keep={in_words(self.newest)}: give how many of the newest checkpoints stay, 1 at least.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A whole checkpoint, with the metrics that its step was saved with."""

    point: RestorePoint
    metrics: Mapping[str, float] = field(default_factory=dict)


def facts(rule: Rule | None, metrics: Mapping[str, float]) -> dict[str, Any]:
    """What a seal says of both, as JSON: a value that is no finite number is left out."""
    finite = {name: value for name, value in metrics.items() if math.isfinite(value)}
    return {**({RULE: asdict(rule)} if rule else {}), **({METRICS: finite} if finite else {})}


def rule_of(sealed: Mapping[str, Any]) -> Rule:
    """The rule that a seal carries; the usual one where it carries none that this version knows."""
    try:
        said = sealed[RULE]
        return Rule(newest=said["newest"], best=said["best"] and Best(**said["best"]))
    except (KeyError, TypeError, UsageError):
        return Rule()


def metrics_of(sealed: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that a seal carries."""
    found = sealed.get(METRICS)
    found = found if isinstance(found, dict) else {}
    return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}


def kept(whole: Sequence[Saved], rule: Rule) -> set[RestorePoint]:
    """Which of the whole checkpoints, newest first, stay."""
    newest = {saved.point for saved in whole[: rule.newest]}
    return newest | ({saved.point for saved in _ranked(whole, rule.best)} if rule.best else set())


def is_among_best(value: float, others: Iterable[float], best: Best) -> bool:
    """Whether a checkpoint with this value would stay; of equal values the one that was there first."""
    if not math.isfinite(value):
        return False
    orders = sorted(best.order(other) for other in others if math.isfinite(other))
    return len(orders) < best.count or best.order(value) < orders[best.count - 1]


def _ranked(whole: Sequence[Saved], best: Best) -> list[Saved]:
    """The best ones; of equal values the oldest."""
    measured = [saved for saved in whole if best.metric in saved.metrics]
    measured.sort(key=lambda saved: (best.order(saved.metrics[best.metric]), seals.rank(saved.point)))
    return measured[: best.count]


def whole(root: Storage) -> list[Saved]:
    """The checkpoints that are whole by a look, newest first."""
    return [_saved(point, sealed) for point, sealed in _whole_of(root, seals.newest_first(root)).items()]


def prune(root: Storage, in_use: RestorePoint | None, over: Callable[[], Collection[str]]) -> list[RestorePoint]:
    """Delete what the rule of the newest whole checkpoint does not keep; never that one, never the one in use.

    What has no seal goes too where nobody writes any more. A prune that was cut short leaves nothing that counts, and
    the next one finds it by that.

    Args:
        root: of all checkpoints, a folder for each attempt.
        in_use: what somebody may be reading.
        over: the folders in which nobody writes any more; asked only where something may go.
    """
    points = seals.newest_first(root)
    sealed = _whole_of(root, points)
    if not sealed:
        return []
    rule = rule_of(next(iter(sealed.values())))
    found = [_saved(point, said) for point, said in sealed.items()]
    stays, oldest = kept(found, rule), seals.rank(found[: rule.newest][-1].point)
    gone = [p for p in points if p not in stays and p != in_use and seals.rank(p) < oldest]
    for point in gone:
        _delete(root, point)
    for folder in over():
        names = root.children(folder)
        for name in names:
            if not _is_sealed(name, names):
                root.delete_folder(f"{folder}/{name}")
    return gone


def but_the_newest(root: Storage) -> list[str]:
    """The folders of earlier runs, where each run makes one: nobody writes there any more."""
    return [str(number) for number in layout.numbered(root.children(""))[:-1]]


def _whole_of(root: Storage, points: Iterable[RestorePoint]) -> dict[RestorePoint, dict[str, Any]]:
    """Those that are whole, in the order given, with what their seals say."""
    said = ((point, seals.said(root, point)) for point in points)
    return {point: sealed for point, sealed in said if sealed is not None}


def _saved(point: RestorePoint, sealed: Mapping[str, Any]) -> Saved:
    return Saved(point=point, metrics=metrics_of(sealed))


def _delete(root: Storage, point: RestorePoint) -> None:
    root.delete(f"{seals.step_folder(point)}{layout.SEALED}")  # first: from here on it does not count
    root.delete_folder(seals.step_folder(point))


def _is_sealed(name: str, names: Collection[str]) -> bool:
    """Whether a folder has its seal beside it, or is none but a seal or a claim."""
    return name.endswith(".json") or f"{name}{layout.SEALED}" in names


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
