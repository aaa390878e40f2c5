"""Which values may a parameter of a sweep have? As it was written, checked, and what lies within."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeGuard

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import nearest, shown
from prefect_tpu.infra.value_words import in_words

SPAN_KEYS = ("low", "high", "step", "log")
MOST_POINTS = 10_000  # of a grid: more trials than any sweep has
MOST_STEPS = 2**53  # from 0: samplers keep numbers as floats, which tell no larger whole ones apart

Scalar = str | int | float | bool | None
Params = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Numbers from `low` to `high`, both of them included.

    step: between two of them; None for every number between.
    log: each order of magnitude is as likely as the next.
    """

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def is_whole(self) -> bool:
        """Of whole numbers alone: its step says so."""
        return all(isinstance(number, int) for number in (self.low, self.high, self.step))

    @property
    def count(self) -> int | None:
        """How many numbers these are; None for every number between."""
        if self.step is None:
            return None
        return int((Decimal(str(self.high)) - Decimal(str(self.low))) // Decimal(str(self.step))) + 1

    def at(self, index: int) -> int | float:
        """The number of this place, counted from 0."""
        assert self.step is not None, "only what has steps is counted"
        number = Decimal(str(self.low)) + index * Decimal(str(self.step))
        return int(number) if self.is_whole else float(number)

    def find(self, value: Scalar) -> tuple[Scalar, ...]:
        """The value as it stands here; empty where it does not."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return ()
        if self.step is None:
            return (float(value),)
        found = self.at(round((value - self.low) / self.step))
        is_here = found <= self.high and math.isclose(value, found, rel_tol=1e-9, abs_tol=1e-12)
        return (found,) if is_here else ()

    def __str__(self) -> str:
        return f"{self.low} to {self.high}" + (f" in steps of {self.step}" if self.step is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A few values, of which one is taken."""

    values: tuple[Scalar, ...]

    @property
    def count(self) -> int:
        return len(self.values)

    def at(self, index: int) -> Scalar:
        """The value of this place, counted from 0."""
        return self.values[index]

    def find(self, value: Scalar) -> tuple[Scalar, ...]:
        """The value as it stands here; empty where it does not. A number is the same with `.0` and without."""
        return tuple(known for known in self.values if _are_same(known, value))[:1]

    def __str__(self) -> str:
        return "one of " + ", ".join(map(in_words, self.values))


Space = dict[str, Span | Choice]


def parse(space: Any) -> Space:
    """A space as it was written: name → list of values, or `low` and `high` with `step` or `log`.

    Raises `UsageError`, naming the parameter, for what is none.
    """
    if not isinstance(space, Mapping) or not space:
        raise UsageError(f"space is {shown(space)}: name the parameters to try, such as {{'width': [64, 128]}}.")
    return {str(name): _dimension(f"space[{name!r}]", said) for name, said in space.items()}


def _dimension(what: str, said: Any) -> Span | Choice:
    if isinstance(said, list | tuple):
        return _choice(what, said)
    if isinstance(said, Mapping):
        return _span(what, said)
    raise UsageError(f"{what} is {shown(said)}: give a list of values, or an object with 'low' and 'high'.")


def _choice(what: str, said: list[Any] | tuple[Any, ...]) -> Choice:
    if not said:
        raise UsageError(f"{what} is empty: give it at least one value.")
    for index, value in enumerate(said):
        is_scalar = value is None or isinstance(value, str | int | float)
        if not is_scalar or (isinstance(value, float) and not math.isfinite(value)):
            raise UsageError(f"{what} has {shown(value)}: its values are texts, finite numbers, true, false or null.")
        if any(_are_same(value, other) for other in said[:index]):
            raise UsageError(f"{what} has {shown(value)} twice: leave one of them out.")
        if value in said[:index]:  # as true is 1
            raise UsageError(f"{what} has {shown(value)}, which samplers do not tell from another of its values.")
    return Choice(values=tuple(said))


def _span(what: str, said: Mapping[Any, Any]) -> Span:
    for key in said:
        if key not in SPAN_KEYS:
            raise UsageError(f"{what} has no key {key!r}. {nearest(str(key), SPAN_KEYS) or 'It has: low, high, …'}")
    for key in ("low", "high"):
        if key not in said:
            raise UsageError(f"{what} has no {key!r}: a span has both ends, such as {{'low': 0.1, 'high': 1}}.")
    for key in ("low", "high", "step"):
        _check_number(what, key, said.get(key, 1))
    log, step = said.get("log", False), said.get("step")
    if not isinstance(log, bool):
        raise UsageError(f"{what}['log'] is {shown(log)}: say true or false.")
    span = Span(low=said["low"], high=said["high"], step=step, log=log)
    _check_ends(what, span)
    return span if span.count is None else Span(low=span.low, high=span.at(span.count - 1), step=step, log=log)


def _check_number(what: str, key: str, value: Any) -> None:
    if not is_number(value):
        raise UsageError(f"{what}[{key!r}] is {shown(value)}: give a finite number.")


def _check_ends(what: str, span: Span) -> None:
    if span.low > span.high:
        raise UsageError(f"{what} goes from {span.low} to {span.high}: 'low' is the smaller end.")
    if not is_number(span.high - span.low):
        raise UsageError(f"{what} goes from {span.low} to {span.high}, which is too far: bring its ends together.")
    if span.step is not None and span.step <= 0:
        raise UsageError(f"{what}['step'] is {span.step}: give a number above 0.")
    if span.step is not None and max(-span.low, span.high) > MOST_STEPS * min(1, span.step):
        raise UsageError(
            f"{what} has steps of {span.step} from {span.low} to {span.high}, which samplers do not tell apart: take"
            " larger steps and smaller numbers, or leave the step out."
        )
    if span.log and span.low <= 0:
        raise UsageError(f"{what}['low'] is {span.low}: with 'log' it is above 0.")
    if span.log and span.step is not None and not (span.is_whole and span.step == 1):
        raise UsageError(
            f"{what} has 'log' and a step of {span.step}: leave one of them out, or take whole steps of 1."
        )


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether it is a finite number, and no larger than a float holds."""
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _are_same(one: Scalar, other: Scalar) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def check_point(what: str, space: Space, params: Any) -> Params:
    """Some parameters of the space with a value each, as the space has them.

    Raises `UsageError`, naming the parameter, for one that is not in the space and for a value outside it.
    """
    if not isinstance(params, Mapping):
        raise UsageError(f"{what} is {shown(params)}: give parameters by name, such as {{'width': 64}}.")
    point = {}
    for name, value in params.items():
        if name not in space:
            raise UsageError(f"{what} has {name!r}, which the space has not. {nearest(str(name), space)}".strip())
        found = space[name].find(value)
        if not found:
            raise UsageError(f"{what}[{name!r}] is {shown(value)}, which is not {space[name]}.")
        point[name] = found[0]
    return point


def sample(space: Space) -> Params:
    """Any point, to see whether a program takes such parameters."""
    return {name: said.low if isinstance(said, Span) else said.at(0) for name, said in space.items()}


def grid(space: Space) -> Iterator[Params]:
    """Every point, the last parameter changing first.

    Raises `UsageError`, naming the parameter, where they cannot be counted, and where they are too many.
    """
    counts = {name: said.count for name, said in space.items()}
    for name, count in counts.items():
        if count is None:
            raise UsageError(
                f"space[{name!r}] has every number from {space[name]}, which is no grid: give it a 'step' or a list."
            )
    total = math.prod(count for count in counts.values() if count is not None)
    if total > MOST_POINTS:
        raise UsageError(f"The grid has {total} points, at most {MOST_POINTS} may be: widen its steps.")
    places = itertools.product(*(range(count or 0) for count in counts.values()))
    return ({name: space[name].at(index) for name, index in zip(space, place, strict=True)} for place in places)
