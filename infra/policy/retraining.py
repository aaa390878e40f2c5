"""Is a model trained again, and does what came of it take the champion's place? Facts in, decision out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from prefect_tpu.infra.errors import FailureKind

DAY_SECONDS = 86_400.0
PROGRAMS_FAULT = frozenset({FailureKind.PROGRAM_ERROR, FailureKind.OUT_OF_MEMORY})  # the same would fail again


class Mode(StrEnum):
    """Which of two scores is better."""

    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a model could be trained on now, and what it was trained on last. Times are seconds since the epoch.

    now: name or place → what lies there now.
    last: the same of the newest candidate that was judged; None where there is none.
    last_at: when that one was begun.
    champion_at: when the champion became it; None while there is none.
    max_age: seconds after which a model is too old; None where none ever is.
    is_forced: somebody wants it trained whatever was seen.
    at: when this was looked up.
    """

    now: Mapping[str, str]
    last: Mapping[str, str] | None
    last_at: float | None
    champion_at: float | None
    max_age: float | None
    is_forced: bool
    at: float


def why_to_train(seen: Seen) -> str | None:
    """The reason; None where nothing calls for it."""
    if seen.is_forced:
        return "it was asked for"
    if seen.last is None:
        return "it was never trained"
    if changed := _changed(seen.last, seen.now):
        return f"its data changed: {', '.join(changed)}"
    return _too_old(seen)


def _too_old(seen: Seen) -> str | None:
    """A candidate that was not better makes nothing younger, but another one is as far away as after one that was."""
    if seen.max_age is None:
        return None
    newest = max(seen.champion_at or 0.0, seen.last_at or 0.0)
    age = seen.at - newest
    return f"it was trained {age / DAY_SECONDS:.1f} days ago" if age > seen.max_age else None


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


class JobIs(StrEnum):
    """How the training of a candidate that is not judged stands."""

    ABSENT = "absent"
    OPEN = "open"
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # or stopped


def why_to_abandon(job: JobIs, began_with: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Whether a candidate that somebody left behind is given up for one with newer data, and why; else it goes on.

    One that trains now, or has trained, is brought to its end: the next run takes the newer data.
    """
    if job in (JobIs.OPEN, JobIs.SUCCEEDED):
        return None
    changed = _changed(began_with, now)
    if not changed:
        return None
    left = "before it was trained" if job is JobIs.ABSENT else "after its training had ended without a result"
    return f"its data changed {left}: {', '.join(changed)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a candidate is promoted, and why or why not, for people."""

    is_promoted: bool
    reason: str


def judge(
    metric: str,
    mode: Mode,
    score: float,
    rival: float | None,
    min_improvement: float = 0.0,
    *,
    is_champion_lost: bool = False,
) -> Verdict:
    """Compare what was measured of a candidate and of the champion on the same data.

    rival: None without a champion; `is_champion_lost` where there is one, but its weights are not whole any more.
    """
    if not math.isfinite(score):
        return Verdict(is_promoted=False, reason=f"its {metric} is {score}")
    if rival is None:
        why = "the champion's weights are gone" if is_champion_lost else "there was no champion"
        return Verdict(is_promoted=True, reason=f"{why}; its {metric} is {score:.6g}")
    if not math.isfinite(rival):
        return Verdict(is_promoted=True, reason=f"its {metric} is {score:.6g}, the champion's {rival}")
    better = rival - score if mode is Mode.MIN else score - rival
    said = f"its {metric} is {score:.6g}, the champion's {rival:.6g}"
    if better > 0 and better >= min_improvement:
        return Verdict(is_promoted=True, reason=said)
    wanted = f", and {min_improvement:.6g} better were asked for" if better > 0 else ""
    return Verdict(is_promoted=False, reason=f"{said}{wanted}")
