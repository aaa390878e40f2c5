"""What a drill says: `preempt@step=40,host=2` rehearses a failure once in a job's life."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from prefect_tpu.infra.errors import UsageError

_SPEC = re.compile(
    r"(?P<kind>[a-z-]+)@(?:(?P<start>start)|(?P<moment>step|save|attempt)=(?P<number>\d{1,9}))"
    r"(?:,attempt=(?P<attempt>\d{1,9}))?(?:,host=(?P<host>\d{1,9}))?"
)
GRAMMAR = "KIND@step=N, @save=N, @start or @attempt=N, then [,attempt=N][,host=K]"


class DrillKind(StrEnum):
    PREEMPT = "preempt"  # SIGTERM with notice, as a spot reclaim sends it
    KILL = "kill"  # SIGKILL of the runner and its program: the host is gone
    FAIL = "fail"  # an exception in the program
    HANG = "hang"  # the program stands still and heeds nobody
    OOM = "oom"  # the program asks for more memory than there is
    STOCKOUT = "stockout"  # the slice is reclaimed, if there is one, and its like is not to be had again
    SLOW = "slow"  # each later step of the attempt takes this host four times as long
    ORCHESTRATOR_KILL = "orchestrator-kill"  # SIGKILL of the process that drives the job


class Moment(StrEnum):
    START = "start"  # before the first line of the program
    STEP = "step"  # when the program first reports this step or a later one
    SAVE = "save"  # while the attempt's save of this number is under way, counted from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """Strike `host` at a moment; in attempt `attempt` only, or, where it is None, in the first that comes to it.

    number: of the step or save; None at the start.
    """

    kind: DrillKind
    moment: Moment
    number: int | None = None
    attempt: int | None = None
    host: int = 0

    def __str__(self) -> str:
        when = self.moment.value if self.number is None else f"{self.moment}={self.number}"
        attempt = "" if self.attempt is None else f",attempt={self.attempt}"
        return f"{self.kind}@{when}{attempt},host={self.host}"

    @property
    def is_the_launchers(self) -> bool:
        """Whether it strikes before there are hosts: a stockout at the start of an attempt."""
        return self.kind is DrillKind.STOCKOUT and self.moment is Moment.START

    def is_due(self, moment: Moment, number: int | None, attempt: int) -> bool:
        """Whether it strikes now: at the very save, and at the step or the first one after it that is reported."""
        if self.moment is not moment or self.attempt not in (None, attempt):
            return False
        if moment is Moment.STEP:
            assert number is not None and self.number is not None, "steps have numbers"
            return number >= self.number
        return number == self.number


class DrillFailure(RuntimeError):
    """What a `fail` drill raises in the program."""


def parse_drill(spec: str) -> Drill:
    """Read `kind@moment[,attempt=N][,host=K]`. Raises `UsageError` with the known kinds and moments.

    `kind@attempt=N` is short for `kind@start,attempt=N`.
    """
    found = _SPEC.fullmatch(spec.strip().lower())
    if found is None or found["kind"] not in list(DrillKind) or (found["moment"] == "attempt" and found["attempt"]):
        raise _unknown(spec)
    at_start = found["start"] is not None or found["moment"] == "attempt"
    attempt = found["number"] if found["moment"] == "attempt" else found["attempt"]
    drill = Drill(
        kind=DrillKind(found["kind"]),
        moment=Moment.START if at_start else Moment(found["moment"]),
        number=None if at_start else int(found["number"]),
        attempt=None if attempt is None else int(attempt),
        host=int(found["host"] or 0),
    )
    if drill.attempt == 0 or (drill.moment is Moment.SAVE and drill.number == 0):
        raise UsageError(f"Drill {spec!r} never strikes: attempts and saves are counted from 1.")
    return drill


def _unknown(spec: str) -> UsageError:
    kinds = ", ".join(kind.value for kind in DrillKind)
    return UsageError(f"Drill {spec!r} is not known: write {GRAMMAR}, with KIND one of {kinds}.")
