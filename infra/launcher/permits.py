"""May a job have so many chips now? What whoever counts chips is asked, and what they answer.

Nobody counts by default. Who does is given to the drivers of jobs, which ask before they seek a slice.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Protocol

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.base import Refused
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.state import Offer, Waiting
from prefect_tpu.infra.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Chips:
    """So many chips of one generation of accelerators, such as `v6e` or `h100`; spot ones count as all others."""

    kind: str
    count: int

    def __str__(self) -> str:
        return f"{self.count} {'chip' if self.count == 1 else 'chips'} of {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """That a job has these chips, for a while. lease: by which any process renews it or gives it back; no secret."""

    lease: str
    chips: Chips


class Standing(StrEnum):
    """What came of renewing a permit."""

    KEPT = "kept"
    LAPSED = "lapsed"  # the chips may be somebody else's now
    UNKNOWN = "unknown"  # nobody answers


class Permits(Protocol):
    """Who counts chips. No verb raises because they are away, and each answers within some seconds."""

    @property
    def renew_seconds(self) -> float:
        """How often a permit is to be renewed."""
        ...

    async def take(self, chips: Chips) -> Permit | Waiting | Refused | None:
        """These chips, where so many are free; None where nobody counts this kind.

        A new permit lasts a minute or so: what is lost before it is noted anywhere comes back soon. `renew` makes it
        last. `Waiting` where too few are free, which is dry, or where nobody answers, which is not.
        """
        ...

    async def renew(self, permit: Permit) -> Standing:
        """Make it last longer."""
        ...

    async def give_back(self, permit: Permit) -> None:
        """The chips are free again; where nobody answers, once the permit lapses. One that has lapsed stays so."""
        ...


class Uncounted:
    """`Permits` where nobody counts."""

    renew_seconds = math.inf

    async def take(self, chips: Chips) -> None:
        """Whatever there is may be had."""

    async def renew(self, permit: Permit) -> Standing:
        """One of somebody else's, who alone can renew it."""
        return Standing.LAPSED

    async def give_back(self, permit: Permit) -> None:
        """It lapses by itself."""


UNCOUNTED = Uncounted()


def chips_of(job: SliceJob, offer: Offer) -> Chips | None:
    """What a job takes of this offer; None of one without chips."""
    shape = resolve(offer.accelerator, dialect=job.dialect)
    return None if shape.platform == "cpu" else Chips(kind=shape.generation, count=shape.chips * job.slices)


def write_permit(storage: Storage, permit: Permit) -> None:
    """Note the one that the job has now, for whoever drives it next."""
    storage.put(layout.PERMIT, contract.write_json(asdict(permit)))


def read_permit(storage: Storage) -> Permit | None:
    """What was noted last; None where the job has none."""
    raw = storage.get(layout.PERMIT)
    if raw is None:
        return None
    with contract.reading(layout.PERMIT):
        data = contract.read_json(raw, layout.PERMIT)
        chips = Chips(kind=str(data["chips"]["kind"]), count=int(data["chips"]["count"]))
        return Permit(lease=str(data["lease"]), chips=chips)
