"""Which devices exchange something with each other? Every way in which the compiler's text writes groups of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

Groups = tuple[tuple[int, ...], ...]

_LISTED = re.compile(r"\{((?:\{[\d,\s]*\},?\s*)*)\}")
_GROUP = re.compile(r"\{([\d,\s]*)\}")
_COUNTED = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_OVER_AXES = re.compile(r"mesh\[([^\]]*)\] \{([^}]*)\}")
_AXIS = re.compile(r"'([^']*)'=(\d+)")
_OVER_AXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")


def read_groups(written: str, devices: int) -> Groups | None:
    """The groups, and `devices` in one where none are written. None where they are written as nobody knows.

    Listed: `{{0,1},{2,3}}`. Counted: `[2,2]<=[4]`, `[4,4]<=[4,4]T(1,0)`. Over axes of a mesh that the compiler sees:
    `mesh['a'=4,'b'=2] {'a'}`, and over parts of one, `{'a':(2)2}`.
    """
    if written in ("", "{}"):
        return (tuple(range(devices)),)
    if _LISTED.fullmatch(written):
        return tuple(_numbers(group) for group in _GROUP.findall(written[1:-1]))
    if found := _COUNTED.fullmatch(written):
        dims = _numbers(found[2])
        order = _numbers(found[3]) if found[3] else tuple(range(len(dims)))
        count, size = _numbers(found[1])[0], prod(_numbers(found[1])[1:])
        counted = _transposed(dims, order)
        return tuple(tuple(counted[group * size : (group + 1) * size]) for group in range(count))
    if found := _OVER_AXES.fullmatch(written):
        return _over_axes(_AXIS.findall(found[1]), _OVER_AXIS.findall(found[2]))
    return None


def read_pairs(written: str) -> Groups:
    """Of a collective-permute: who sends to whom."""
    return tuple(_numbers(pair) for pair in _GROUP.findall(written[1:-1]))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number.strip())


def _transposed(dims: Sequence[int], order: Sequence[int]) -> list[int]:
    """The numbers from 0 in an array of these dimensions, read with its axes in this order."""
    steps = [prod(dims[axis + 1 :]) for axis in order]
    counted = [0]
    for axis, step in zip(order, steps, strict=True):
        counted = [number + place * step for number in counted for place in range(dims[axis])]
    return counted


def _over_axes(axes: list[tuple[str, str]], over: list[tuple[str, str, str]]) -> Groups | None:
    """An axis is split in three where only a part of it is gone over: what lies outside of it, it, what lies inside."""
    names, dims = [name for name, _ in axes], [int(size) for _, size in axes]
    parts, chosen = [(1, size, 1) for size in dims], [False] * len(dims)
    for name, outside, part in over:
        if name not in names:
            return None
        place = names.index(name)
        chosen[place] = True
        if part:
            parts[place] = (int(outside), int(part), dims[place] // int(outside) // int(part))
    split = [size for part in parts for size in part]
    within = [3 * place + 1 for place, is_chosen in enumerate(chosen) if is_chosen]
    around = [place for place in range(len(split)) if place not in within]
    size = prod(split[place] for place in within)
    counted = _transposed(split, [*around, *within])
    return tuple(tuple(counted[start : start + size]) for start in range(0, len(counted), size))
