"""May what is left of an attempt be ended, and why? Only those that nobody can want any more."""

from __future__ import annotations

from dataclasses import dataclass

MARGIN_SECONDS = 30.0  # a runner ends its program itself and then writes its record: it gets this long beyond its due

UNDRIVEN_SECONDS = 600.0  # what was made for an attempt waits so long for somebody who renews the lease of its job


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of the attempt's plan, in seconds; without `orphan_after` it runs on though nobody drives it."""

    grace: float
    orphan_after: float | None
    deadline: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What is known of an attempt of which something is still there: processes, or objects of a cluster.

    limits: None where its plan is gone.
    outcome: how the attempt ended; None where it has no outcome.
    end: how its job ended; None where it has no end.
    is_driven: somebody drives the job, as far as can be told.
    undriven_for: seconds since the lease was renewed last, at most those since it began.
    age: seconds since the first of it began.
    has_job: its job's folder is there.
    comes_first: it is there before its attempt has a plan, as a slice is that is made.
    overdue: seconds since anybody may end it, whatever else is known; None before.
    is_over: nothing of the attempt runs any more, though nobody wrote down how it ended.
    """

    attempt: int
    newest_attempt: int
    limits: Limits | None
    outcome: str | None
    end: str | None
    is_driven: bool
    undriven_for: float
    age: float
    has_job: bool = False
    comes_first: bool = False
    overdue: float | None = None
    is_over: bool = False


def why_to_end(found: Leftover) -> str | None:
    """The reason, for people; None where the processes may live.

    What has just been told to end by its driver gets `MARGIN_SECONDS` to do so.
    """
    if found.overdue is not None:
        return f"it is {found.overdue:.0f} s past its deadline"
    if found.limits is None and found.comes_first and found.has_job:
        return _of_unplanned(found)
    if found.limits is None:
        return "its job's folder is gone" if found.age > MARGIN_SECONDS else None
    if found.is_driven:
        return _of_driven(found, found.limits)
    if found.outcome is not None:
        return f"the attempt has ended ({found.outcome})"
    if found.end is not None:
        return f"its job has ended ({found.end})"
    if found.attempt < found.newest_attempt:
        return f"attempt {found.newest_attempt} has taken its place"
    return _of_orphaned(found, found.limits) or _past_deadline(found, found.limits) or _of_idle(found)


def _of_unplanned(found: Leftover) -> str | None:
    """Made for an attempt that has not begun: whoever drives the job gives it back, or begins."""
    if found.is_driven:
        return None
    if found.end is not None:
        return f"its job has ended ({found.end})"
    if found.attempt < found.newest_attempt:
        return f"attempt {found.newest_attempt} has taken its place"
    if found.undriven_for > UNDRIVEN_SECONDS:
        return f"nobody has driven its job for {found.undriven_for:.0f} s, and its attempt has not begun"
    return None


def _of_driven(found: Leftover, limits: Limits) -> str | None:
    """Whoever drives ends what has ended itself; what it does not see is a host that heeds no deadline."""
    return None if found.outcome or found.end else _past_deadline(found, limits)


def _of_orphaned(found: Leftover, limits: Limits) -> str | None:
    if limits.orphan_after is None or found.undriven_for <= limits.orphan_after + limits.grace + MARGIN_SECONDS:
        return None
    allowed = limits.orphan_after + limits.grace + MARGIN_SECONDS
    return f"nobody has driven it for {found.undriven_for:.0f} s, and it should have left within {allowed:.0f} s"


def _of_idle(found: Leftover) -> str | None:
    """What an attempt ran on costs money though it is over; its own words stay for whoever drives the job next."""
    if not (found.comes_first and found.is_over) or found.undriven_for <= UNDRIVEN_SECONDS:
        return None
    return f"nobody has driven its job for {found.undriven_for:.0f} s, and nothing runs on it any more"


def _past_deadline(found: Leftover, limits: Limits) -> str | None:
    if limits.deadline is None or found.age <= limits.deadline + limits.grace + MARGIN_SECONDS:
        return None
    return f"it is {found.age:.0f} s old, past its deadline of {limits.deadline:.0f} s and its grace"
