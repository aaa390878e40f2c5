"""Over which axes of a mesh does an exchange go, and how far: on one host, within a slice, between slices?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from prefect_tpu.infra.compiler.exchanges import Exchange
from prefect_tpu.infra.compiler.groups import Groups
from prefect_tpu.infra.compiler.report import AxisPlace, Collective, Crosses

_NEAREST_FIRST = (Crosses.NONE, Crosses.HOSTS, Crosses.SLICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a device is: its slice and its host, both counted over all, and JAX's id of it."""

    slice: int
    host: int
    id: int = -1


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A mesh, and where its devices are.

    places: of each device, in the order of the mesh, the last axis fastest.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    places: tuple[Place, ...]

    @cached_property
    def by_slice(self) -> tuple[tuple[int, ...], ...]:
        """The positions of each slice's devices: where there are several, a program's numbers count one slice's."""
        slices = sorted({place.slice for place in self.places})
        return tuple(
            tuple(position for position, place in enumerate(self.places) if place.slice == number) for number in slices
        )

    @cached_property
    def by_id(self) -> dict[int, int]:
        return {place.id: position for position, place in enumerate(self.places)}

    def coordinates(self, position: int) -> tuple[int, ...]:
        return tuple(position // prod(self.sizes[axis + 1 :]) % size for axis, size in enumerate(self.sizes))


def axis_places(layout: Layout) -> tuple[AxisPlace, ...]:
    """Of each axis, how far apart the devices along it are."""
    return tuple(
        AxisPlace(name=name, size=size, crosses=_crosses(layout, _lines(layout, axis)))
        for axis, (name, size) in enumerate(zip(layout.names, layout.sizes, strict=True))
    )


def collectives(layout: Layout, exchanges: Sequence[Exchange], partitions: int) -> tuple[Collective, ...]:
    """Exchanges of one kind over the same axes as one; what crosses slices first, then what has most bytes.

    partitions: how many devices the program's numbers count.
    """
    found: dict[tuple[str, tuple[str, ...], Crosses], Collective] = {}
    for one in exchanges:
        groups = _positions(layout, one, partitions)
        axes, crosses = _axes(layout, groups), _crosses(layout, groups)
        before = found.get((one.kind, axes, crosses))
        found[one.kind, axes, crosses] = Collective(
            kind=one.kind,
            axes=axes,
            count=one.times.count + (before.count if before else 0),
            bytes=one.bytes * one.times.count + (before.bytes if before else 0),
            crosses=crosses,
            is_exact=one.times.is_exact and (before is None or before.is_exact),
        )
    return tuple(sorted(found.values(), key=lambda one: (-_NEAREST_FIRST.index(one.crosses), -one.bytes)))


def _positions(layout: Layout, one: Exchange, partitions: int) -> Groups:
    """The groups, by positions in the mesh. Groups that nobody can read are taken for all devices at once."""
    if one.between:
        return tuple(zip(*(layout.by_slice[number] for number in one.between), strict=True))
    if one.groups is None:
        return (tuple(range(len(layout.places))),)
    if one.ids:
        return tuple(tuple(layout.by_id[number] for number in group) for group in one.groups)
    if partitions < len(layout.places):
        return tuple(tuple(part[number] for number in group) for part in layout.by_slice for group in one.groups)
    return one.groups


def _lines(layout: Layout, axis: int) -> Groups:
    """The devices along an axis, from each place where it begins."""
    step, size = prod(layout.sizes[axis + 1 :]), layout.sizes[axis]
    begins = (position for position in range(len(layout.places)) if position // step % size == 0)
    return tuple(tuple(begin + place * step for place in range(size)) for begin in begins)


def _axes(layout: Layout, groups: Groups) -> tuple[str, ...]:
    """The axes along which the devices of any group differ."""
    differing = {axis for group in groups for axis in _differing(layout, group)}
    return tuple(name for axis, name in enumerate(layout.names) if axis in differing)


def _differing(layout: Layout, group: Sequence[int]) -> Iterator[int]:
    along = zip(*(layout.coordinates(position) for position in group), strict=True)
    return (axis for axis, places in enumerate(along) if len(set(places)) > 1)


def _crosses(layout: Layout, groups: Groups) -> Crosses:
    """Of all groups, the furthest."""
    return max((_apart(layout, group) for group in groups), key=_NEAREST_FIRST.index, default=Crosses.NONE)


def _apart(layout: Layout, group: Sequence[int]) -> Crosses:
    places = [layout.places[position] for position in group]
    if len({place.slice for place in places}) > 1:
        return Crosses.SLICES
    return Crosses.HOSTS if len({place.host for place in places}) > 1 else Crosses.NONE
