"""Does it fit? What a job needs against what each source says there is.

Whatever a source does not say is not known: it is never taken for zero, nor for enough. And a quota is a permission: it
says nothing of capacity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

NO_CAPACITY_SAID = "Quota says nothing of capacity."


class Fit(StrEnum):
    """Whether what is needed is allowed."""

    FITS = "fits"
    DOES_NOT = "does not fit"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What one source says of a need.

    said: the numbers, or why there are none.
    advice: where to ask for more, or for the right to look.
    is_for_good: it does not fit, and waiting for others to end does not help.
    """

    fit: Fit
    said: str
    advice: str = ""
    is_for_good: bool = False

    def __str__(self) -> str:
        return f"{self.fit}: {self.said.rstrip('.')}.{f' {self.advice}' if self.advice else ''}"


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

    @property
    def ruling(self) -> Ruling:
        return Ruling(fit=Fit.FITS if self.is_enough else Fit.DOES_NOT, said=str(self), is_for_good=not self.is_enough)

    def __str__(self) -> str:
        return f"{self.what}: {self.needed:g} {self.unit} needed, {self.available:g} {self.unit} available"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """So much of something may be used by everybody together.

    what: in words, such as `quota TPU-V5P-per-project-region in us-east5`.
    limit: None where it is not known, `math.inf` where there is none.
    used: None where it is not known.
    unknown: why one of them is not known.
    more: where to ask for more. look: what is needed to know what is not.
    """

    what: str
    unit: str
    limit: float | None
    used: float | None = None
    unknown: str = ""
    more: str = ""
    look: str = ""


def judge(needed: float, allowance: Allowance) -> Ruling:
    """What follows for somebody who needs so much. Only numbers that were told make it fit, or not."""
    limit, used, unit = allowance.limit, allowance.used, allowance.unit
    if limit is None:
        return cannot_tell(f"{allowance.what}: {allowance.unknown or 'its limit is not known'}", allowance.look)
    needs = f"{allowance.what}: needs {needed:g} {unit}"
    if limit < needed:
        return Ruling(
            fit=Fit.DOES_NOT, said=f"{needs}, the limit is {limit:g}", advice=allowance.more, is_for_good=True
        )
    if limit == inf:
        return Ruling(fit=Fit.FITS, said=f"{needs}, there is no limit")
    if used is None:
        why = f" ({allowance.unknown})" if allowance.unknown else ""
        return cannot_tell(f"{needs}, the limit is {limit:g}; how much is used is not known{why}", allowance.look)
    free = f"{needs}, has {max(0.0, limit - used):g} of {limit:g}"
    if limit - used < needed:
        return Ruling(fit=Fit.DOES_NOT, said=f"{free} ({used:g} used)", advice=allowance.more)
    return Ruling(fit=Fit.FITS, said=f"{free} ({used:g} used)")


def cannot_tell(why: str, advice: str = "") -> Ruling:
    return Ruling(fit=Fit.CANNOT_TELL, said=why, advice=advice)


def together(rulings: Sequence[Ruling]) -> Fit:
    """Of sources that all count: the worst of them. Where none spoke, nobody can tell."""
    found = {ruling.fit for ruling in rulings}
    if Fit.DOES_NOT in found:
        return Fit.DOES_NOT
    return Fit.FITS if found == {Fit.FITS} else Fit.CANNOT_TELL


def is_hopeless(rulings: Sequence[Ruling]) -> bool:
    """Whether some source surely says no, however long one waits."""
    return any(ruling.fit is Fit.DOES_NOT and ruling.is_for_good for ruling in rulings)


def best(alternatives: Sequence[tuple[Ruling, ...]]) -> tuple[Ruling, ...]:
    """Of ways of which one is enough: the first that fits, else the first that might, else the first that may yet."""
    order = (Fit.FITS, Fit.CANNOT_TELL, Fit.DOES_NOT)
    return min(alternatives, key=lambda way: (order.index(together(way)), is_hopeless(way)), default=())


def for_now(rulings: Sequence[Ruling], reason: str) -> tuple[Ruling, ...]:
    """The same where a no does not decide, and why it does not."""
    return tuple(
        replace(ruling, said=f"{ruling.said.rstrip('.')}; {reason}", is_for_good=False)
        if ruling.is_for_good
        else ruling
        for ruling in rulings
    )


def missing(limits: tuple[Limit, ...]) -> str | None:
    """A sentence that names what is missing; None where everything fits."""
    short = [str(limit) for limit in limits if not limit.is_enough]
    return "; ".join(short) + "." if short else None
