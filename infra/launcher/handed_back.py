"""Is another attempt due after the last one, and when? For whoever has to move something of its own in between."""

from __future__ import annotations

from dataclasses import dataclass

from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.launcher.step import budget_of
from prefect_tpu.infra.launcher.written import Written
from prefect_tpu.infra.policy import restarts
from prefect_tpu.infra.policy.capacity import CAPACITY


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedBack:
    """An attempt that had begun has ended with a failure, and the job may be tried again.

    failure: why it ended.
    seconds: from now until the next attempt is due; 0 where it is due at once.
    attempt: the number of the one that ended.
    reason: why it is tried again after so long, for people.
    """

    failure: Failure
    seconds: float
    attempt: int
    reason: str


def handed_back(job: SliceJob, written: Written, now: float) -> HandedBack | None:
    """What a job that lies there is handed back with; None where no attempt of it failed so that another may follow.

    An attempt that had no slice is nobody's business but the launcher's, which goes on to the next offer by itself.

    Args:
        job: what was asked for.
        written: its folder as it is now.
        now: seconds since the epoch, as ends of attempts are written.
    """
    if written.has_result or written.is_stop_asked or written.live is not None or not written.ended:
        return None
    last = written.ended[-1]
    if last.failure is None or last.failure.kind in CAPACITY:
        return None
    decision = restarts.after(written.ended, budget_of(job))
    if isinstance(decision, restarts.GiveUp):
        return None
    left = decision.wait_seconds - (now - (last.ended or now))
    return HandedBack(failure=last.failure, seconds=max(0.0, left), attempt=last.number, reason=decision.reason)
