"""Has the platform no capacity for an attempt now? By what the autoscaler and a queue's provisioning say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from prefect_tpu.infra.backends.jobset_facts import EventFacts, Said
from prefect_tpu.infra.gcp import pool_errors

# Events of the cluster autoscaler about a pod, in our words.
SCALING = {
    "TriggeredScaleUp": "the autoscaler is adding nodes",
    "NotTriggerScaleUp": "the autoscaler adds none",
    "FailedScaleUp": "the autoscaler could not add nodes",
}
_NEVER_BEGINS = "NotTriggerScaleUp"  # no pool that may grow has room for it, or each pauses after it failed
_FAILS = "FailedScaleUp"  # for many reasons, of which only the words tell one from another
# The autoscaler's own words in its events, beside those of the API that it asks.
TEXTS = (
    "out of resources",  # `GCE out of resources`
    "quota exceeded",  # `GCE quota exceeded`
    "failed to appear in time",  # `Some nodes in node group […] failed to appear in time`
    "scale.up.error.out.of.resources",  # so far as a name of its log stands in an event
    "scale.up.error.quota.exceeded",
    "scale.up.error.ip.space.exhausted",
    "no.scale.up",
    "IP space exhausted",
)
# Reasons of a ProvisioningRequest's conditions; Kueue passes on what was said with them, not always the reason.
REASONS = (
    "ResourcePoolExhausted",
    "QuotaExceeded",
    "IPSpaceExhausted",
    "QueuingInfeasibleNoCapacity",
    "WaitTimeExceeded",
    "InvalidReservation",
    "ReservationNotFound",
    "ReservationNotReady",
    "ReservationCapacityExceeded",
    "ReservationIncompatible",
    "ZoneNotSupported",
)
REQUEST_TEXTS = ("not enough resources available to fulfill the request",)


def newest(events: Iterable[EventFacts]) -> Said | None:
    """What the autoscaler said last of a pod; None where it said nothing."""
    of_scaling = [event for event in events if event.said.reason in SCALING]
    return max(of_scaling, key=lambda event: event.at).said if of_scaling else None


def is_dry(said: Said) -> bool:
    """Whether another offer may have its turn, for this one has no capacity: none is there, or none is allowed."""
    if said.reason == _NEVER_BEGINS:
        return True
    return said.reason == _FAILS and (_has(said.message, TEXTS) or _is_of_machines(said.message))


def is_request_dry(message: str) -> bool:
    """The same of what Kueue passes on of a ProvisioningRequest."""
    words = set(re.findall(r"\w+", message))
    return bool(words & set(REASONS)) or _has(message, REQUEST_TEXTS) or _is_of_machines(message)


def _is_of_machines(message: str) -> bool:
    trouble = pool_errors.trouble_of(pool_errors.Said(text=message))
    return trouble in (pool_errors.Trouble.STOCKOUT, pool_errors.Trouble.QUOTA, pool_errors.Trouble.NO_QUOTA)


def _has(message: str, texts: Iterable[str]) -> bool:
    return any(text.lower() in message.lower() for text in texts)
