"""Which rows make a share? Numbers of rows in, numbers of rows out; the same on every host."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.value_words import in_words

if TYPE_CHECKING:
    import numpy as np

Uneven = Literal["drop", "pad", "refuse"]  # what becomes of rows that would make one share larger than another
Where: TypeAlias = "range | np.ndarray[Any, Any]"  # these rows in this order; a range where they lie side by side


def order(rows: int, seed: int | None, epoch: int) -> Where:
    """All rows, shuffled where there is a seed: anew in each epoch, and the same again for the same one."""
    if seed is None:
        return range(rows)
    import numpy as np

    return np.random.default_rng([seed, epoch]).permutation(rows)


def share(whole: Where, part: int, parts: int, uneven: Uneven) -> Where:
    """Part `part` of `parts` equal ones, side by side.

    Raises:
        UsageError: the rows do not divide and that is to be refused, or are fewer than the parts and not to be padded.
    """
    left = len(whole) % parts
    if left and uneven == "refuse":
        raise UsageError(
            f"{len(whole)} rows cannot be shared equally by {parts} hosts: {left} would be left over. Use"
            f' {len(whole) - left} rows or {len(whole) + parts - left}, or say uneven="drop" or uneven="pad".'
        )
    if left and uneven == "drop" and len(whole) < parts:
        raise UsageError(
            f"{len(whole)} rows cannot be shared by {parts} hosts: none would have any. Give as many rows as hosts at"
            ' least, or let rows come more than once: uneven="pad".'
        )
    each = -(-len(whole) // parts) if uneven == "pad" else len(whole) // parts
    return cut(whole, part * each, each)


def cut(whole: Where, first: int, count: int) -> Where:
    """`count` rows from place `first` on; after the last one, the first ones again."""
    if first + count <= len(whole):
        return whole[first : first + count]
    import numpy as np

    return np.asarray(whole, np.int64)[np.arange(first, first + count) % len(whole)]


def check_uneven(uneven: Uneven, asked: str) -> None:
    if uneven not in get_args(Uneven):
        raise UsageError(f"{asked}(uneven={uneven!r}): say {', '.join(map(repr, get_args(Uneven)))}.")


def whole_number(value: Any, name: str, asked: str, least: int) -> int:
    """The value as an int. Raises `UsageError` where it is none, or below `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(f"{asked}({name}={in_words(value)}): give a whole number from {least}.")
    return number
