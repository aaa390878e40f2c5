"""What can be due for a job? One action at a time, which `step` chooses and a driver performs."""

from __future__ import annotations

from dataclasses import dataclass

from prefect_tpu.infra.errors import Failure
from prefect_tpu.infra.state import JobState, Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """Find or make a slice for attempt `number`."""

    number: int
    offer: Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Ask nobody for a slice for attempt `number` for some seconds: no offer that is left has capacity."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Submit:
    """Write the plan of attempt `number` for the slice that is held, and send it."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    """Find the live attempt's hosts again and look at them."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Wait for news of the live attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TellToLeave:
    """Tell the live attempt's hosts to save and leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Write the live attempt's outcome and end whatever of it still lives."""

    failure: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Wait before the next attempt."""

    seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Write the job's end."""

    state: JobState
    failure: Failure | None


Action = Provision | Rest | Submit | Attach | Watch | TellToLeave | Close | BackOff | Finish
