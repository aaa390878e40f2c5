"""What do the objects of one attempt depend on? Everything that a manifest is made of, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.pods import PodSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """One attempt as pods.

    hosts: what every host reads.
    plan_url: where a host finds that.
    pods: what the job wants of its pods.
    shape: the accelerator of each slice.
    provision_timeout: seconds that the attempt may wait for its slices.
    avoid: node pools that it shall not be placed on.
    """

    hosts: HostPlan
    plan_url: str
    pods: PodSettings
    shape: Slice
    provision_timeout: float
    avoid: tuple[str, ...] = ()

    @property
    def capacity(self) -> str:
        """`on-demand`, `spot`, `reserved`, `flex-start`, `queue`, or empty where nothing was said."""
        return capacity_of(self.shape, self.pods.reservation)

    @property
    def reservation(self) -> str | None:
        """The reservation whose nodes are wanted: of the accelerator's name, else of the settings."""
        return reservation_of(self.shape, self.pods.reservation)

    @property
    def is_joined(self) -> bool:
        """Whether each slice is several hosts whose chips are joined: a node pool of its own, which nobody shares."""
        return self.shape.platform == "tpu" and self.shape.hosts > 1


def capacity_of(shape: Slice, reservation: str | None) -> str:
    """How machines are paid for: by the accelerator's name, else `reserved` where the settings name a reservation."""
    said = (shape.capacity or "").partition("=")[0]
    return said or ("reserved" if reservation else "")


def reservation_of(shape: Slice, reservation: str | None) -> str | None:
    """Whose machines are wanted: by the accelerator's name, else by the settings."""
    return (shape.capacity or "").partition("=")[2] or reservation
