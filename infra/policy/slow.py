"""Which host keeps the others waiting? What each says of its steps → one host, or None.

Hosts that compute together make a step in the same time, whoever is slow. So what counts is a host's own part: what it
does not wait, in its reports, for values that all compute. Where the chips themselves are slow, or the program waits by
itself (`float(loss)`), own parts do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from prefect_tpu.infra.contract import Progress

TIMES = 1.5  # an own part that is as many times that of the others at the median
SHARE = 0.2  # and makes the step longer by this share of it
LEAST_SECONDS = 0.02  # and by more than a busy machine does


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowHost:
    """The slowest host, and what is known of its steps, in seconds."""

    host: int
    own_seconds: float
    others_seconds: float
    step_seconds: float

    def __str__(self) -> str:
        return (
            f"host {self.host} is slow: its own part of a step takes {self.own_seconds:.3f} s, that of the others"
            f" {self.others_seconds:.3f} s, and all wait for it"
        )


def slow_host(reported: Mapping[int, Progress]) -> SlowHost | None:
    """The host whose own part of a step is longest, where that is much longer than those of the others."""
    own = {host: said.own_seconds for host, said in reported.items() if said.own_seconds is not None}
    if len(own) < 2:
        return None
    host = max(own, key=lambda each: own[each])
    usual = median(seconds for other, seconds in own.items() if other != host)
    step = reported[host].step_seconds or own[host]
    late = own[host] - usual
    if own[host] < TIMES * usual or late < SHARE * step or late < LEAST_SECONDS:
        return None
    return SlowHost(host=host, own_seconds=own[host], others_seconds=usual, step_seconds=step)
