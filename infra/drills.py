"""What a drill says: `preempt@step=40,host=2` rehearses a failure once in a job's life."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from prefect_tpu.infra.errors import UsageError

_SPEC = re.compile(r"(?P<kind>[a-z-]+)@step=(?P<step>\d+)(?:,host=(?P<host>\d+))?")


class DrillKind(StrEnum):
    PREEMPT = "preempt"  # SIGTERM with notice, as a spot reclaim sends it
    KILL = "kill"  # SIGKILL of the runner and its program: the host is gone
    FAIL = "fail"  # an exception in the program


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """Strike `host` when its program first reports `step` or a later one."""

    kind: DrillKind
    step: int
    host: int = 0

    def __str__(self) -> str:
        return f"{self.kind}@step={self.step},host={self.host}"


class DrillFailure(RuntimeError):
    """What a `fail` drill raises in the program."""


def parse_drill(spec: str) -> Drill:
    """Read `kind@step=N[,host=K]`. Raises `UsageError` with the known kinds."""
    found = _SPEC.fullmatch(spec.strip().lower())
    kinds = ", ".join(kind.value for kind in DrillKind)
    if found is None or found["kind"] not in list(DrillKind):
        raise UsageError(f"Drill {spec!r} is not known: write KIND@step=N[,host=K] with KIND one of {kinds}.")
    return Drill(kind=DrillKind(found["kind"]), step=int(found["step"]), host=int(found["host"] or 0))
