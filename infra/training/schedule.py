"""When is a checkpoint due? Decided by one clock, at steps that all hosts know beforehand.

Hosts that looked at their own clocks would disagree, and asking the leader at
each step would cost more than a step. So each check also says when the next one
is: after half the remaining time, so that checks get closer as the time does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LONGEST_WAIT = 1000  # calls between two checks at most: steps may become slower


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What the leader decided at one check; `next_call` is the call at which to check again."""

    due: bool
    next_call: int


def check(*, call: int, since_saved: float, every: float, call_seconds: float, longest: int = LONGEST_WAIT) -> Check:
    """Whether a save is due, and how many calls from now to look again.

    Args:
        call: the number of this call.
        since_saved: seconds since the last save, or since the start.
        every: seconds between two saves; infinite for none by time.
        call_seconds: how long a call took lately, with the step before it; 0 where not known.
        longest: calls until the next check at most.
    """
    due = since_saved >= every
    remaining = every if due else every - since_saved
    wait = min(remaining / (2 * call_seconds), longest) if call_seconds > 0 else 1
    return Check(due=due, next_call=call + max(1, int(wait)))


class Schedule:
    """Counts the calls, and asks `agree` for the leader's decision only where a check stands."""

    def __init__(
        self,
        *,
        every: float,
        agree: Callable[[Check], Check],
        longest: int = LONGEST_WAIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every, self._agree, self._longest, self._clock = every, agree, longest, clock
        self.calls = 0
        self._next_call = 1
        self._saved_at = self._checked_at = clock()
        self._checked_call = 0

    def is_due(self) -> bool:
        """Count one call; whether a save is due at it. The same on all hosts."""
        self.calls += 1
        if self.calls < self._next_call:
            return False
        agreed = self._agree(self._own_check())
        self._next_call = agreed.next_call
        return agreed.due

    def saved(self) -> None:
        """A save has begun: the time to the next one runs from now."""
        self._saved_at = self._clock()

    def _own_check(self) -> Check:
        now = self._clock()
        # The first call has the compilation in it: it says nothing of the calls to come.
        seconds = (now - self._checked_at) / (self.calls - self._checked_call) if self._checked_call else 0.0
        self._checked_at, self._checked_call = now, self.calls
        return check(
            call=self.calls,
            since_saved=now - self._saved_at,
            every=self._every,
            call_seconds=seconds,
            longest=self._longest,
        )
