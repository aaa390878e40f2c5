"""After an attempt has ended: try again, and when, or give up?

A preemption or a lost host that left a newer checkpoint costs nothing and
restarts at once. Without progress it costs one of `max_preemptions` and waits
longer each time. A program error is retried `max_failures` times, at once.
Attempts that had no slice cost nothing; they are bounded by the time they took.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import AttemptSummary
from prefect_tpu.infra.policy.capacity import CAPACITY, in_a_row, new_places

FIRST_WAIT_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 300.0
_PROGRAM = frozenset({FailureKind.PROGRAM_ERROR, FailureKind.OUT_OF_MEMORY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Begin another attempt `wait_seconds` after the last one ended; `reason` is for people."""

    wait_seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """The job ends with its last attempt's failure; `reason` is for people."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a job allows, as `SliceJob` has it."""

    max_preemptions: int
    max_failures: int
    provision_timeout: float


def after(ended: Sequence[AttemptSummary], budget: Budget) -> Restart | GiveUp:
    """The decision after the last of `ended`, which must have failed.

    Of one that had no slice it is asked once every accelerator was tried.
    """
    cause = ended[-1].failure
    assert cause is not None, "a succeeded attempt needs no decision"
    if cause.kind in _PROGRAM:
        return _after_program_error(ended, cause, budget.max_failures)
    if not cause.retryable:
        return GiveUp(reason=f"{cause.kind} is not retried")
    if cause.kind in CAPACITY:
        return _after_waiting(in_a_row(ended), budget.provision_timeout)
    return _after_disruption(ended, budget.max_preemptions)


def _after_waiting(ended: Sequence[AttemptSummary], longest: float) -> Restart | GiveUp:
    """None of the last attempts had a slice: again, a little later each time, for `longest` seconds in all.

    At once where the last one has found a place that is to be avoided from now on.
    """
    took = (ended[-1].ended or ended[-1].started) - ended[0].started
    if took >= longest:
        return GiveUp(reason=f"no slice in {took:.0f} s, provision_timeout is {longest:.0f} s")
    if new := new_places(ended):
        return Restart(wait_seconds=0.0, reason=f"another place than {', '.join(new)} is tried")
    return Restart(wait_seconds=_wait(len(ended)), reason=f"no slice was to be had, {len(ended)} in a row")


def _after_program_error(ended: Sequence[AttemptSummary], cause: Failure, max_failures: int) -> Restart | GiveUp:
    spent = sum(1 for attempt in ended if attempt.failure and attempt.failure.kind in _PROGRAM)
    if spent > max_failures:
        return GiveUp(reason=f"{cause.kind} after {spent} of {max_failures} allowed failures")
    return Restart(wait_seconds=0.0, reason=f"failure {spent} of {max_failures} allowed")


def _after_disruption(ended: Sequence[AttemptSummary], max_preemptions: int) -> Restart | GiveUp:
    fruitless = [_is_fruitless(ended, index) for index in range(len(ended))]
    if not fruitless[-1]:
        return Restart(wait_seconds=0.0, reason="a newer checkpoint was saved")
    spent = sum(fruitless)
    if spent > max_preemptions:
        return GiveUp(reason=f"{spent} disruptions without progress, {max_preemptions} allowed")
    times = next((i for i, flag in enumerate(reversed(fruitless)) if not flag), len(fruitless))
    return Restart(wait_seconds=_wait(times), reason=f"no progress, disruption {spent} of {max_preemptions} allowed")


def _wait(times: int) -> float:
    """Twice as long each time."""
    return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(times - 1, 16)))


def _is_fruitless(ended: Sequence[AttemptSummary], index: int) -> bool:
    """A disrupted attempt that saved nothing newer than what all before it had."""
    attempt = ended[index]
    if attempt.failure is None or attempt.failure.kind in _PROGRAM | CAPACITY:
        return False
    before = max((a.saved_step for a in ended[:index] if a.saved_step is not None), default=-1)
    return attempt.saved_step is None or attempt.saved_step <= before
