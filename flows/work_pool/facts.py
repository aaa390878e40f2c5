"""What is known of a flow run and of its job, as far as it decides what becomes of both?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from prefect.client.schemas.objects import StateType

from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.launcher.handed_back import HandedBack
from prefect_tpu.infra.state import JobState

FINAL = frozenset({StateType.COMPLETED, StateType.FAILED, StateType.CRASHED, StateType.CANCELLED})
STOCK_PENDING = frozenset({"Pending", "Submitting", "InfrastructurePending"})  # names that Prefect's own worker gives


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What Prefect says of a run.

    type: of its state; None where the run was deleted.
    name, message: of its state.
    seconds: for which this process has seen this very state, by its own clock.
    due_in: seconds until its scheduled time; 0 where it has come, or there is none.
    has_deployment: a run without one is handed out by nobody a second time.
    is_withheld: Prefect takes it for being repeated by a process that lives, and hands it out to nobody.
    is_unsubmitted: it crashed because a worker could not submit it, for a reason that may pass.
    resubmitted: how often it was given back to Prefect since it ran last, because nothing came of its submission.
    """

    type: StateType | None
    name: str = ""
    message: str = ""
    seconds: float = 0.0
    due_in: float = 0.0
    has_deployment: bool = True
    is_withheld: bool = False
    is_unsubmitted: bool = False
    resubmitted: int = 0

    @property
    def is_final(self) -> bool:
        return self.type in FINAL

    @property
    def is_over(self) -> bool:
        """It has its end, or is gone."""
        return self.type is None or self.is_final

    @property
    def is_just_handed_out(self) -> bool:
        """Pending, and nobody has begun to drive its job since."""
        return self.type is StateType.PENDING and self.name in STOCK_PENDING


class JobPhase(StrEnum):
    """How far a job is."""

    UNKNOWN = "unknown"  # its folder cannot be seen from here
    ABSENT = "absent"  # there is none
    OPEN = "open"  # it has no end
    OVER = "over"  # it has one


class Driver(StrEnum):
    """Who drives a job."""

    US = "us"
    ANOTHER = "another"  # as far as is known: this process waits for its turn
    NOBODY = "nobody"  # in this process


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is written of a job, and who drives it.

    driven_for: seconds for which this process has driven it; 0 where it does not.
    has_live: an attempt has hosts, or is about to.
    ended: the number of the newest attempt that has ended; 0 before the first.
    due: the next attempt, where the last one failed and may be repeated; of a job that this process drives also while
        that one is still being ended.
    end, failure: how the job ended.
    """

    phase: JobPhase
    driver: Driver = Driver.NOBODY
    driven_for: float = 0.0
    has_live: bool = False
    is_stop_asked: bool = False
    ended: int = 0
    due: HandedBack | None = None
    end: JobState | None = None
    failure: Failure | None = None

    @property
    def is_driven(self) -> bool:
        return self.driver is not Driver.NOBODY
