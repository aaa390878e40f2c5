"""What does a person want to know of a program? Which slices are asked about, and what must stay close together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.compiler.fitting import slices_asked
from prefect_tpu.infra.compiler.question import Question, Target
from prefect_tpu.infra.compiler.report import Collective, Crosses, Verdict
from prefect_tpu.infra.compiler.slices import check_known
from prefect_tpu.infra.errors import UsageError

_WITHIN = {"host": Crosses.NONE, "slice": Crosses.HOSTS}  # the farthest that is still allowed
_FARTHER = {Crosses.NONE: 0, Crosses.HOSTS: 1, Crosses.SLICES: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A program and the slices it is checked for.

    accelerators: in this order; `v5p-*` stands for the smallest slice of the generation that holds the step.
    mesh: what the program gets where it says none, as JSON; empty for one axis `data`.
    within: axis → `host` or `slice`, which no exchange along it may leave.
    fit: the parameter that is the global batch, of which the largest that fits is wanted; empty: as it is. Where
        `params` have it too, the search begins there.
    """

    target: Target
    accelerators: tuple[str, ...]
    slices: int = 1
    params: dict[str, Any] = field(default_factory=dict)
    mesh: str = ""
    within: dict[str, str] = field(default_factory=dict)
    fit: str = ""


def candidates(accelerator: str) -> tuple[str, ...]:
    """The slices that a word stands for, the smallest first. Raises `UsageError` where the compiler knows none."""
    found = [resolve(name) for name in slices_asked(accelerator)]
    for one in found:
        check_known(one)
    return tuple(one.name for one in found)


def batch_of(wish: Wish, accelerator: str, each: int) -> int:
    """The batch of all devices that have so many each: an axis over all of them divides it."""
    return each * resolve(accelerator).jax_devices * wish.slices


def first_of(wish: Wish, accelerator: str) -> int:
    """The batch of a device that a search begins with: of what the person gave, shared out; else 1."""
    given: int = wish.params.get(wish.fit, 0)
    return max(1, given // batch_of(wish, accelerator, 1))


def check_fit(fit: str, params: Mapping[str, Any]) -> None:
    """Raise `UsageError` where a search for the largest batch cannot begin with what was given for it."""
    given = params.get(fit, 1)
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise UsageError(
            f"--fit {fit} begins its search with {fit}={given!r}, which is no batch: give a whole number from 1, or"
            " leave it out."
        )


def read_within(given: Sequence[str]) -> dict[str, str]:
    """Of `AXIS=host` and `AXIS=slice`."""
    found: dict[str, str] = {}
    for text in given:
        axis, equals, place = text.partition("=")
        if not equals or not axis or place not in _WITHIN:
            raise UsageError(f"--within {text!r} is not AXIS=host or AXIS=slice, such as --within tp=host.")
        found[axis] = place
    return found


def question(wish: Wish, accelerator: str, **params: Any) -> Question:
    """About one slice; `params` take the place of the wish's own."""
    return Question(accelerator=accelerator, slices=wish.slices, params={**wish.params, **params}, mesh=wish.mesh)


def broken(wish: Wish, verdict: Verdict) -> tuple[str, ...]:
    """Of each demand that a verdict does not keep: which axis, how many bytes, what to do."""
    return tuple(line for axis, place in wish.within.items() for line in _broken(axis, place, verdict))


def _broken(axis: str, place: str, verdict: Verdict) -> Iterator[str]:
    if verdict.step is None:
        return
    there = {one.name: one for one in verdict.axes}
    if axis not in there:
        names = ", ".join(there) or "none"
        yield f"{verdict.accelerator}: --within names the axis {axis!r}, and the mesh has {names}: name one of these."
        return
    if _FARTHER[there[axis].crosses] <= _FARTHER[_WITHIN[place]]:
        return
    over = [one for one in verdict.step.collectives if axis in one.axes]
    if over:
        yield _said(axis, place, there[axis].crosses, over, verdict)


def _said(axis: str, place: str, crosses: Crosses, over: Sequence[Collective], verdict: Verdict) -> str:
    kinds = ", ".join(sorted({one.kind for one in over}))
    mib = sum(one.bytes for one in over) / 2**20
    size = dict(verdict.mesh)[axis]
    return (
        f"{verdict.accelerator}: axis {axis!r} of size {size} shall stay within a {place}, and it crosses {crosses}:"
        f" {kinds} over it move {mib:.1f} MiB per device and step. {_advice(axis, place, verdict)}"
    )


def _advice(axis: str, place: str, verdict: Verdict) -> str:
    if place == "slice":
        return f"Let another axis go over the {verdict.slices} slices: the first whose size divides by them does."
    return (
        f"A host has {verdict.devices // verdict.hosts} devices, and a mesh lays its axes along whole sides of the"
        " slice: try a smaller size, or a slice of one host. Hosts of a slice are joined by its fast network, so"
        f" --within {axis}=slice may be all that is needed."
    )
