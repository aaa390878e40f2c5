"""Which facts decide what comes next for a job? What is written down, what is seen of its hosts, what offers said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.job import AttemptSummary, SliceJob
from prefect_tpu.infra.policy import capacity
from prefect_tpu.infra.state import Observation, Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The attempt that has a plan and no outcome.

    observation: None until the backend was asked.
    failing_for: seconds since a host's failure was first seen, None where none was.
    waiting_for: seconds that it has been without a slice since it was sent, None where it has one.
    stopping_for: seconds since the hosts were told to leave, None where they were not.
    is_lacking: no host of it has begun, and its slice could not be taken.
    """

    number: int
    offer: Offer
    observation: Observation | None = None
    is_lacking: bool = False
    failing_for: float | None = None
    waiting_for: float | None = None
    stopping_for: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that decides what comes next.

    offers: in the job's order. ended: the attempts of this round, oldest first.
    last_number: of any attempt ever. since_last_end: seconds.
    refused: offers that cannot be had, and why. barred: those of them that lack no slice.
    lacking: what offers said that had no slice for now. short_of: what it was that they lacked.
    dry: those of the lacking that had no capacity, and for how many seconds more each rests. rest: for how many they
        do, the first time. awaited: the one whose slice is on its way.
    held: the offer of the slice we have. waited: seconds since there was none to be had.
    """

    job: SliceJob
    offers: tuple[Offer, ...]
    ended: tuple[AttemptSummary, ...] = ()
    last_number: int = 0
    since_last_end: float = 0.0
    live: Live | None = None
    refused: Mapping[Offer, str] = field(default_factory=dict)
    barred: frozenset[Offer] = frozenset()
    lacking: Mapping[Offer, str] = field(default_factory=dict)
    short_of: FailureKind = FailureKind.NO_CAPACITY
    dry: Mapping[Offer, float] = field(default_factory=dict)
    rest: float = capacity.REST_SECONDS
    awaited: Offer | None = None
    held: Offer | None = None
    waited: float = 0.0
    is_stop_asked: bool = False

    @property
    def now(self) -> float:
        """By the clock of the attempts' ends; it tells nothing before the first of them."""
        return (self.ended[-1].ended or 0.0) + self.since_last_end if self.ended else 0.0

    @property
    def reasons(self) -> dict[Offer, str]:
        """Why each offer that was asked gave no slice."""
        return {**capacity.said_in_vain(self.ended), **self.lacking, **self.refused}
