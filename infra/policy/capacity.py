"""Which offer next? Ordered offers and what was refused → the next one, or give up with all reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.policy.failures import failure
from prefect_tpu.infra.state import Offer

REFUSED_ADVICE = (
    "Waiting does not help: choose a smaller accelerator, name others too, or raise the limit that is named."
)


def choose(offers: Sequence[Offer], refused: Mapping[Offer, str], last_failed: Offer | None = None) -> Offer | Failure:
    """The first offer that was not refused; one that has just failed is tried last.

    Returns a `Failure` that lists why each was refused where none is left.
    """
    open_offers = [offer for offer in offers if offer not in refused]
    if not open_offers:
        reasons = [f"{offer.accelerator}: {refused[offer]}" for offer in offers]
        none = failure(FailureKind.NO_CAPACITY, "No slice is to be had. " + " ".join(reasons), evidence=reasons)
        return replace(none, advice=REFUSED_ADVICE)
    return min(open_offers, key=lambda offer: (offer == last_failed, offers.index(offer)))
