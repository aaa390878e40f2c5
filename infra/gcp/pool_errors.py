"""Why was a node pool not made? What Google says of it, by its codes, and by its words where there are no codes.

Everything comes down to what whoever asked has to do:

    STOCKOUT    Google has no such machines now: another offer has its turn
    QUOTA       the project's quota is in use: the same
    NO_QUOTA    the project has no quota of this at all: somebody has to ask Google for it
    PERMISSION  whoever asks, or the nodes' service account, lacks a right
    TOPOLOGY    there is no such slice of such machines
    INVALID     Google does not take what was asked for
    BUSY        the cluster does something else, or too much was asked at once: ask again
    NOT_NOW     the cluster is not in the state for it, in words that we do not know: wait, and let others have a turn
    EXISTS      there is a pool of this name
    GONE        there is none, or no such cluster
    AWAY        no answer, or an error on Google's side: nobody knows what was done, so look again

The codes are those of google/container/v1/cluster_service.proto (2026-08-22), and what they mean that of Google's own
autoscaler (cluster-autoscaler of GKE, 2026-08-21). The words are from there, from xpk (2026-06-25) and from people's
reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

# google.rpc.Code, by number
CANONICAL = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


class Trouble(StrEnum):
    """What whoever asked for a pool has to do about it; the module says it in words."""

    STOCKOUT = "stockout"
    QUOTA = "quota"
    NO_QUOTA = "no quota"
    PERMISSION = "permission"
    TOPOLOGY = "topology"
    INVALID = "invalid"
    BUSY = "busy"
    NOT_NOW = "not now"
    EXISTS = "exists"
    GONE = "gone"
    AWAY = "away"

    @property
    def is_final(self) -> bool:
        """Whether waiting does not help."""
        return self in (Trouble.NO_QUOTA, Trouble.PERMISSION, Trouble.TOPOLOGY, Trouble.INVALID, Trouble.GONE)

    @property
    def is_dry(self) -> bool:
        """Whether another offer may have its turn meanwhile."""
        return self in (Trouble.STOCKOUT, Trouble.QUOTA, Trouble.NOT_NOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What Google said of one failure.

    canonical: a name of google.rpc.Code. condition: of StatusCondition.Code; empty where there was none.
    text: its words.
    is_answer: it is the answer to a request, rather than the end of an operation.
    """

    canonical: str = ""
    condition: str = ""
    text: str = ""
    is_answer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFailure:
    """What went wrong with a pool, and Google's own words."""

    trouble: Trouble
    said: str


# Codes of a pool's own conditions, which say exactly one thing.
CONDITIONS = {
    "GCE_STOCKOUT": Trouble.STOCKOUT,
    "GCE_QUOTA_EXCEEDED": Trouble.QUOTA,
    "GKE_SERVICE_ACCOUNT_DELETED": Trouble.PERMISSION,
    "NODE_SERVICE_ACCOUNT_MISSING_PERMISSIONS": Trouble.PERMISSION,
    "CLOUD_KMS_KEY_ERROR": Trouble.PERMISSION,
    "CLOUD_KMS_KEY_DESTROYED": Trouble.PERMISSION,
}
# Canonical codes that say one thing, whatever the words.
CODES = {
    "ALREADY_EXISTS": Trouble.EXISTS,
    "NOT_FOUND": Trouble.GONE,
    "UNAUTHENTICATED": Trouble.PERMISSION,
    "UNAVAILABLE": Trouble.AWAY,
    "DEADLINE_EXCEEDED": Trouble.AWAY,
    "CANCELLED": Trouble.AWAY,
    "ABORTED": Trouble.BUSY,
}
# Canonical codes under which Google says several things: the words decide, and else this.
OPEN_CODES = {
    "RESOURCE_EXHAUSTED": Trouble.STOCKOUT,
    "PERMISSION_DENIED": Trouble.PERMISSION,
    "FAILED_PRECONDITION": Trouble.NOT_NOW,
    "INVALID_ARGUMENT": Trouble.INVALID,
    "OUT_OF_RANGE": Trouble.INVALID,
    "UNIMPLEMENTED": Trouble.INVALID,
    "INTERNAL": Trouble.AWAY,
    "UNKNOWN": Trouble.AWAY,
    "DATA_LOSS": Trouble.AWAY,
}
# A quota of nothing is told from one that is used up by its number alone.
NO_QUOTA = re.compile(r"quota.*(limit: 0(\.0+)?(?!\.?\d)|has a quota of '0(\.0+)?')", re.IGNORECASE | re.DOTALL)
# Words that have no code of their own, the most particular first.
TEXTS = (
    ("is incorrect for the requested resources", Trouble.INVALID),  # the maintenance interval of a reservation
    ("incompatible operation", Trouble.BUSY),
    ("RATE_LIMIT_EXCEEDED", Trouble.BUSY),
    ("per minute", Trouble.BUSY),
    ("RESOURCE_POOL_EXHAUSTED", Trouble.STOCKOUT),  # also ZONE_… and …_WITH_DETAILS
    ("GCE_STOCKOUT", Trouble.STOCKOUT),
    ("lack of capacity", Trouble.STOCKOUT),
    ("Requested resource is exhausted", Trouble.STOCKOUT),
    ("does not have enough resources available to fulfill", Trouble.STOCKOUT),
    ("GCE_QUOTA_EXCEEDED", Trouble.QUOTA),
    ("QUOTA_EXCEEDED", Trouble.QUOTA),
    ("Insufficient regional quota", Trouble.QUOTA),
    ("Insufficient project quota", Trouble.QUOTA),
    ("Quota '", Trouble.QUOTA),  # `Quota 'TPUS_PER_TPU_FAMILY' exceeded.`
    ("TPU topology", Trouble.TOPOLOGY),
    ("tpu_topology", Trouble.TOPOLOGY),
)


def trouble_of(said: Said, *, has_topology: bool = False) -> Trouble:
    """What a failure is. has_topology: a topology was asked for, so what is invalid is most likely that."""
    found = CONDITIONS.get(said.condition) or CODES.get(said.canonical) or _by_text(said.text)
    if found is None:
        found = OPEN_CODES.get(said.canonical, Trouble.AWAY)
        if said.is_answer and said.canonical == "RESOURCE_EXHAUSTED":
            found = Trouble.BUSY  # of requests: machines are lacking only once they are looked for
    if found is Trouble.INVALID and has_topology and said.canonical == "INVALID_ARGUMENT":
        found = Trouble.TOPOLOGY if said.is_answer and _by_text(said.text) is None else found
    return Trouble.NO_QUOTA if found is Trouble.QUOTA and NO_QUOTA.search(said.text) else found


def _by_text(text: str) -> Trouble | None:
    return next((trouble for words, trouble in TEXTS if words.lower() in text.lower()), None)
