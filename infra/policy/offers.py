"""Which offers does a job have, in which order, and by what are they told apart?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer
from prefect_tpu.infra.zones import may_have


class Placed(Protocol):
    """What was had of an offer: a plan, the summary of an attempt, the note of a drill."""

    @property
    def accelerator(self) -> str: ...

    @property
    def cluster(self) -> str | None: ...

    @property
    def zone(self) -> str | None: ...


def offers_of(job: SliceJob) -> tuple[Offer, ...]:
    """The accelerators, of each the clusters, of each the zones, all as the job prefers them; each offer once."""
    places = tuple(_places(job.pods)) if job.pods is not None else ((None, None),)
    found = (
        Offer(accelerator=name, cluster=cluster, zone=zone) for name in job.accelerators for cluster, zone in places
    )
    return tuple(dict.fromkeys(found))


def _places(pods: PodSettings) -> Iterator[tuple[str | None, str | None]]:
    for cluster in (pods.cluster, *pods.fallback_clusters):
        if not pods.zones:
            yield cluster, None
        for zone in pods.zones:
            if may_have(cluster, zone):
                yield cluster, zone


def offer_of(placed: Placed) -> Offer:
    """What this was had of."""
    return Offer(accelerator=placed.accelerator, cluster=placed.cluster, zone=placed.zone)


def named(offer: Offer, among: Iterable[Offer]) -> str:
    """`v6e-16:spot in us-east5-b of gke://…`: of its place only what tells it apart among these."""
    place = where(offer, among)
    return f"{offer.accelerator} in {place}" if place else offer.accelerator


def where(offer: Offer, among: Iterable[Offer]) -> str:
    """`us-east5-b of gke://…`, only what tells it apart among these; empty where that is nothing."""
    others = tuple(among)
    zone = offer.zone if any(other.zone != offer.zone for other in others) else None
    cluster = _cluster(offer) if any(other.cluster != offer.cluster for other in others) else None
    return " of ".join(part for part in (zone, cluster) if part)


def _cluster(offer: Offer) -> str:
    if offer.cluster is None:
        return "the cluster at hand"
    return offer.cluster if "://" in offer.cluster else f"cluster {offer.cluster}"
