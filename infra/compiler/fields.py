"""Is a field of an answer what it must be? The program that the child runs may write anything into its streams."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from prefect_tpu.infra.errors import PlatformError

_T = TypeVar("_T")


class UnreadableAnswer(PlatformError):
    """What the compiler's process said is no answer of ours."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Whatever an answer lacks or mistypes is an `UnreadableAnswer`, never an error of Python's."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        why = f"no {exc}" if isinstance(exc, KeyError) else exc
        raise UnreadableAnswer(
            f"{what} of the compiler's process cannot be read ({why}): the program wrote into the stream that its"
            " answers go to, or that process runs another prefect-tpu. Keep the program from using file descriptors"
            " that it did not open, and look that only one prefect-tpu is installed."
        ) from exc


def table(value: object) -> dict[str, Any]:
    return _of(dict, value)


def items(value: object) -> list[Any]:
    """A list; of a verdict that never was JSON, a tuple."""
    return list(value) if isinstance(value, tuple) else _of(list, value)


def text(value: object) -> str:
    return _of(str, value)


def truth(value: object) -> bool:
    return _of(bool, value)


def count(value: object) -> int:
    """A whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def number(value: object) -> float:
    """A finite number from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
        raise ValueError(f"{value!r} is no amount")
    return float(value)


def _of(kind: type[_T], value: object) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
