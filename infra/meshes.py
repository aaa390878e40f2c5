"""What a mesh spec says: `{"data": -1, "tp": 4}` or `[[4,2],[fsdp,tp]]`, and whether it uses slices whole."""

from __future__ import annotations

import contextlib
import json
import math
import operator
from dataclasses import dataclass, replace
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.mesh_text import MeshSpec, shown, sizes_and_names

REST = -1  # an axis of this size takes all devices that the others leave
_MOST_AXES = 16  # NumPy has 32, and a mesh over slices needs twice its own
_LARGEST = 999_999_999  # more devices than there are


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshShape:
    """The axes of a mesh, outermost first. One size may be `REST` until it is fitted to a slice.

    sizes: over all slices together.
    over_slices: of each axis, over how many slices it goes; empty where there is one slice, or it is not fitted.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    over_slices: tuple[int, ...] = ()

    @property
    def within_slice(self) -> tuple[int, ...]:
        """The sizes of the part that each slice has."""
        return tuple(map(operator.floordiv, self.sizes, self.over_slices or (1,) * len(self.sizes)))

    def __str__(self) -> str:
        return " × ".join(f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a mesh is fitted to.

    count: JAX devices over all slices.
    of: the accelerator, where a message shall name it.
    """

    count: int
    slices: int = 1
    of: str = ""

    def __str__(self) -> str:
        if self.slices == 1:
            return f"{self.of or 'the slice'} has {self.count}"
        return f"{f'{self.slices} slices of {self.of}' if self.of else f'the {self.slices} slices'} have {self.count}"


def parse_mesh(spec: MeshSpec, what: str = "Mesh") -> MeshShape:
    """Read a mesh spec in any of its forms. Raises `UsageError`, saying `what` it is, where it is none of them."""
    given, names = sizes_and_names(spec, what)
    if len(names) > _MOST_AXES:
        raise UsageError(f"{what} {shown(spec)} has {len(names)} axes: use {_MOST_AXES} at most.")
    sizes = [_size(size, spec, what) for size in given]
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"{what} {shown(spec)} has the axis name {shown(name)}: use words.")
    if len(set(names)) != len(names):
        raise UsageError(f"{what} {shown(spec)} names an axis twice: give each axis its own name.")
    if sizes.count(REST) > 1:
        raise UsageError(f"{what} {shown(spec)} has {sizes.count(REST)} axes of size -1: only one can take the rest.")
    return MeshShape(names=tuple(names), sizes=tuple(sizes))


def _size(size: Any, spec: MeshSpec, what: str) -> int:
    """A number of Python's or of NumPy's, as an int."""
    with contextlib.suppress(TypeError):  # it is no whole number
        number = operator.index(size)
        if not isinstance(size, bool) and (number == REST or 1 <= number <= _LARGEST):
            return number
    raise UsageError(f"{what} {shown(spec)} has the size {shown(size)}: use whole numbers from 1, or -1 for the rest.")


def spelled(spec: Any) -> str:
    """The one text of a spec; empty where none is given. Raises `UsageError` where it is none."""
    if spec is None or spec == "":
        return ""
    shape = parse_mesh(spec)
    return json.dumps(dict(zip(shape.names, shape.sizes, strict=True)))


def fit_mesh(shape: MeshShape, devices: Devices, dcn: MeshShape | None = None) -> MeshShape:
    """The shape with its -1 filled in, and with the slices shared out among its axes.

    dcn: which axes go over how many slices each; without it the first axis whose size divides by the slices does.

    Raises `UsageError` where the shape does not use exactly these devices, or its axes cannot go over the slices so.
    """
    whole = _fill(shape, devices)
    if dcn is not None:
        return replace(whole, over_slices=_as_told(whole, devices.slices, dcn))
    return whole if devices.slices == 1 else replace(whole, over_slices=_first_that_divides(whole, devices))


def _fill(shape: MeshShape, devices: Devices) -> MeshShape:
    fixed = math.prod(size for size in shape.sizes if size != REST)
    if REST in shape.sizes and devices.count % fixed == 0:
        return replace(shape, sizes=_with_rest(shape.sizes, devices.count // fixed))
    if REST in shape.sizes:
        raise UsageError(
            f"Mesh {shape} cannot be filled up: {devices} devices, and its fixed sizes make {fixed}, which does not"
            f" divide {devices.count}. {_suggest(shape, devices.count)}"
        )
    if fixed != devices.count:
        left = "leaves devices idle" if fixed < devices.count else "wants more than there are"
        raise UsageError(f"Mesh {shape} is for {fixed} devices, {devices}: it {left}. {_suggest(shape, devices.count)}")
    return shape


def _with_rest(sizes: tuple[int, ...], rest: int) -> tuple[int, ...]:
    return tuple(rest if size == REST else size for size in sizes)


def _first_that_divides(shape: MeshShape, devices: Devices) -> tuple[int, ...]:
    for place, size in enumerate(shape.sizes):
        if size % devices.slices == 0:
            return tuple(devices.slices if axis == place else 1 for axis in range(len(shape.sizes)))
    raise UsageError(
        f"Mesh {shape} cannot go over {devices.slices} slices ({devices}): none of its sizes divides by"
        f" {devices.slices}. Give one axis a size that does, or let the program share the slices out among several,"
        ' as tpu.mesh(…, dcn={"data": 2, "fsdp": 2}) does for four.'
    )


def _as_told(shape: MeshShape, slices: int, dcn: MeshShape) -> tuple[int, ...]:
    """Of each axis, over how many slices it goes."""
    for name in dcn.names:
        if name not in shape.names:
            raise UsageError(f"dcn has the axis {name!r}, which mesh {shape} does not: name one of its axes.")
    told = dict(zip(dcn.names, _shared(dcn, slices), strict=True))
    over = tuple(told.get(name, 1) for name in shape.names)
    for name, size, parts in zip(shape.names, shape.sizes, over, strict=True):
        if size % parts:
            raise UsageError(
                f"Axis {name!r} of mesh {shape} cannot go over {parts} slices: its size {size} does not divide by that,"
                " and sizes are over all slices together. Give it another size, or dcn another axis."
            )
    return over


def _shared(dcn: MeshShape, slices: int) -> tuple[int, ...]:
    fixed = math.prod(size for size in dcn.sizes if size != REST)
    rest = slices // fixed if REST in dcn.sizes else 1
    if fixed * rest != slices:
        there = f"there are {slices}" if slices > 1 else "there is 1"
        raise UsageError(
            f"dcn {dcn} does not share out the slices: {there}. Let its sizes make {slices}, or give one axis -1,"
            " which takes however many there are."
        )
    return _with_rest(dcn.sizes, rest)


def _suggest(shape: MeshShape, devices: int) -> str:
    """A mesh of the same axes that fits: the inner sizes stay as far as they divide, the first takes the rest."""
    left, sizes = devices, []
    for size in reversed(shape.sizes[1:]):
        sizes.append(math.gcd(left, size) if size != REST else 1)
        left //= sizes[-1]
    fitting = MeshShape(names=shape.names, sizes=(left, *reversed(sizes)))
    return f"Use {fitting}, or -1 for the axis that shall take the rest."
