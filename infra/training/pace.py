"""How long does a step take this host, and how much of that does it wait for the others?"""

from __future__ import annotations

WARM_UP = 2  # reports after which a step takes what it takes: the first ones compile
LAST = 16  # steps: so many must be done, and about as many count in the mean


class Pace:
    """The means of the last steps."""

    def __init__(self) -> None:
        self._reports = 0
        self._step = self._own = 0.0

    def add(self, seconds: float, waited: float) -> None:
        """One report more: the seconds since the one before it, and those of them that it waited."""
        self._reports += 1
        if self._reports > WARM_UP:
            share = 1 / min(LAST, self._reports - WARM_UP)
            self._step += share * (seconds - self._step)
            self._own += share * (max(0.0, seconds - waited) - self._own)

    @property
    def facts(self) -> dict[str, float]:
        """For the progress of this host; empty until some steps are done."""
        if self._reports < WARM_UP + LAST:
            return {}
        return {"step_seconds": round(self._step, 6), "own_seconds": round(self._own, 6)}
