"""How long may the pods of an attempt live, and what was made for them, and how long do they have to leave?"""

from __future__ import annotations

import math

# GKE gives pods of the user 15 s when it takes a spot node back; a longer grace has no effect there.
# https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms, read 2026-11-28
SPOT_NOTICE_SECONDS = 15
WRITING_SECONDS = 5  # of a notice, for the log and the record after the program's end
DEFAULT_DEADLINE_SECONDS = 30 * 86_400  # of a job without one: so that pods that nobody drives end some day
MARGIN_SECONDS = 600  # the hosts keep the deadline themselves; Kubernetes is second


def program_grace(grace: float, capacity: str) -> float:
    """What of a job's grace its program can count on, on nodes of this kind."""
    return min(grace, SPOT_NOTICE_SECONDS - WRITING_SECONDS) if capacity == "spot" else grace


def pod_grace(grace: float, capacity: str) -> int:
    """Seconds from a pod's SIGTERM to its SIGKILL: the program's grace and the time to write how it went."""
    return math.ceil(program_grace(grace, capacity)) + WRITING_SECONDS


def active_deadline(provision_timeout: float, deadline: float | None, grace: float) -> int:
    """Seconds after which Kubernetes ends the Jobs of an attempt whatever happens: its waiting counts too."""
    running = DEFAULT_DEADLINE_SECONDS if deadline is None else deadline
    return math.ceil(provision_timeout + running + grace) + MARGIN_SECONDS


def pool_lifetime(provision_timeout: float, deadline: float | None, grace: float) -> int:
    """Seconds after its making when nothing runs on a node pool any more: it is there before its attempt is sent."""
    return math.ceil(provision_timeout) + active_deadline(provision_timeout, deadline, grace)


def lifetime(active: int, ttl: int) -> int:
    """Seconds after its creation when nothing of an attempt should be left."""
    return active + ttl + MARGIN_SECONDS
