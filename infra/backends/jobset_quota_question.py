"""Of what is asked whether it is allowed: a slice of which kind, where, and by whom would its nodes be made?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prefect_tpu.infra.accelerators import Slice, resolve
from prefect_tpu.infra.gcp.pod_plan import capacity_of
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.state import Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaQuestion:
    """One offer, and what of a job decides about its quota.

    queue: the Kueue queue that would admit it.
    selector: labels that its nodes must have beside those of the accelerator.
    makes_pools: whether nodes are made for it, and never those taken that are there.
    """

    shape: Slice
    slices: int = 1
    cluster: str | None = None
    zone: str | None = None
    namespace: str = "default"
    queue: str | None = None
    reservation: str | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    makes_pools: bool = False

    @property
    def chips(self) -> int:
        return self.shape.chips * self.slices

    @property
    def capacity(self) -> str:
        """`on-demand`, `spot`, `reserved`, `flex-start` or `queue`."""
        return capacity_of(self.shape, self.reservation) or "on-demand"


def question_of(job: SliceJob, offer: Offer) -> QuotaQuestion:
    """What a job asks of an offer."""
    pods, shape = job.pods, resolve(offer.accelerator, dialect=job.dialect)
    if pods is None:
        return QuotaQuestion(shape=shape, slices=job.slices)
    return QuotaQuestion(
        shape=shape,
        slices=job.slices,
        cluster=offer.cluster or pods.cluster,
        zone=offer.zone,
        namespace=pods.namespace,
        queue=pods.queue,
        reservation=pods.reservation,
        selector=pods.node_selector,
        makes_pools=pods.make_pools,
    )
