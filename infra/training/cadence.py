"""Is a step to be saved? By the time, by its number or by its metric, alike on all hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

from prefect_tpu.infra import retention
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.retention import Best, Rule, is_among_best
from prefect_tpu.infra.storage import Storage
from prefect_tpu.infra.training import agreement, beside
from prefect_tpu.infra.training.schedule import LONGEST_WAIT, Check, Schedule
from prefect_tpu.infra.value_words import in_words


def agreed(root: Storage, every: float, steps: int | None, rule: Rule | None) -> Cadence:
    """The cadence of all hosts together, for checkpoints below `root`. every: seconds."""
    best = rule.best if rule is not None else None
    saved = retention.whole(root) if best is not None and agreement.is_leader() else []
    values = [each.metrics[best.metric] for each in saved if best is not None and best.metric in each.metrics]
    longest = LONGEST_WAIT if agreement.peers() > 1 else 1
    schedule = Schedule(every=every, agree=_agree, longest=longest)
    return Cadence(schedule=schedule, steps=steps, best=BestSoFar(best, values, _agree_on))


def _agree(own: Check) -> Check:
    due, next_call = agreement.from_leader((own.due, own.next_call))
    return Check(due=bool(due), next_call=next_call)


def _agree_on(own: bool) -> bool:
    return bool(agreement.from_leader((own,))[0])


def check_asked(call: str, every: Any, steps: Any) -> None:
    """Raise `UsageError` for what is no time, or no number of steps. call: what the program wrote."""
    if every is not None and (isinstance(every, bool) or not isinstance(every, Real) or not float(every) > 0):
        raise UsageError(f"{call}(every={in_words(every)}): give a number of seconds above 0.")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise UsageError(f"{call}(steps={in_words(steps)}): give a whole number of steps, 1 at least.")


def rule(call: str, best: tuple[str, str, int] | None, keep: int | None) -> Rule | None:
    """Which checkpoints are to stay; None where the program does not say. call: what it wrote."""
    if best is None and keep is None:
        return None
    if best is not None and (not isinstance(best, tuple | list) or len(best) != 3):
        raise UsageError(
            f"{call}(best={in_words(best)}): give (metric, 'min' or 'max', how many), as ('loss', 'min', 3)."
        )
    wanted = Best(metric=best[0], mode=best[1], count=best[2]) if best is not None else None
    return Rule(best=wanted) if keep is None else Rule(newest=keep, best=wanted)


def passes(step: int, before: int, each: int | None) -> bool:
    """Whether the number of steps done has reached a multiple of `each` since the step before; steps count from 0.

    A program that calls only now and then, or took another step up, passes no multiple by.
    """
    return each is not None and (step + 1) // each > (before + 1) // each


class BestSoFar:
    """Whether a step is due for its metric. The leader's values decide, through `agree`."""

    def __init__(self, best: Best | None, saved: Iterable[float], agree: Callable[[bool], bool]) -> None:
        """saved: the values that were saved before; the leader's count."""
        self._best, self._agree, self._saved = best, agree, list(saved)
        self.was_asked = best is None or bool(self._saved)  # whether the metric was ever given

    def is_due(self, metrics: Mapping[str, Any]) -> bool:
        """Whether the step is among the best that stay. All hosts are asked where it was measured."""
        if self._best is None or self._best.metric not in metrics:
            return False
        self.was_asked = True
        value = beside.number(self._best.metric, metrics[self._best.metric])
        return self._agree(is_among_best(value, self._saved, self._best))

    def saved(self, metrics: Mapping[str, float]) -> None:
        """A save with these metrics has begun."""
        if self._best is not None and self._best.metric in metrics:
            self._saved.append(metrics[self._best.metric])


class Cadence:
    """All three together."""

    def __init__(self, *, schedule: Schedule, steps: int | None, best: BestSoFar) -> None:
        self._schedule, self._steps, self.best = schedule, steps, best
        self._before = -1

    @property
    def calls(self) -> int:
        """How often `is_due` was asked: the same on all hosts."""
        return self._schedule.calls

    def begin_after(self, step: int) -> None:
        """That step was restored."""
        self._before = step

    def is_due(self, step: int, metrics: Mapping[str, Any]) -> bool:
        """Count one call; whether a save is due at it. The same on all hosts."""
        by_number = passes(step, self._before, self._steps)
        self._before = step
        by_time = self._schedule.is_due()  # always asked: it counts
        return self.best.is_due(metrics) or by_time or by_number

    def saved(self, metrics: Mapping[str, float]) -> None:
        """A save has begun."""
        self._schedule.saved()
        self.best.saved(metrics)
