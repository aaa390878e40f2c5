"""Does it fit? What a job needs against what is there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limited thing: how much of it a job needs and how much there is, in `unit`s."""

    what: str
    unit: str
    needed: float
    available: float

    @property
    def is_enough(self) -> bool:
        return self.needed <= self.available

    def __str__(self) -> str:
        return f"{self.what}: {self.needed:g} {self.unit} needed, {self.available:g} {self.unit} available"


def missing(limits: tuple[Limit, ...]) -> str | None:
    """A sentence that names what is missing; None where everything fits."""
    short = [str(limit) for limit in limits if not limit.is_enough]
    return "; ".join(short) + "." if short else None
