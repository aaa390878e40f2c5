"""Where does this process run? The plan and folders that its host runner handed over, or nothing outside a job."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.plan import HostPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """This host of this attempt.

    started: the runner's start on this machine's monotonic clock, in seconds.
    """

    plan: HostPlan
    host: int
    scratch: Path
    runner: int
    started: float

    @property
    def is_leader(self) -> bool:
        return self.host == 0

    @property
    def is_flow(self) -> bool:
        """A flow on one of several hosts, which is none of them: its regions are."""
        return self.plan.program.kind == "flow" and self.plan.region is None and self.plan.hosts > 1


def context() -> Context | None:
    """This host's context; None outside a job."""
    path = os.environ.get(Env.PLAN)
    if not path:
        return None
    values = (os.environ[name] for name in (Env.HOST, Env.SCRATCH, Env.RUNNER, Env.STARTED))
    return _read(path, *values)


@cache
def _read(path: str, host: str, scratch: str, runner: str, started: str) -> Context:
    return Context(
        plan=HostPlan.from_json(Path(path).read_bytes()),
        host=int(host),
        scratch=Path(scratch),
        runner=int(runner),
        started=float(started),
    )
