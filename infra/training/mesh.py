"""Which mesh spans the whole slice? A spec, fitted to the devices that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.mesh_text import MeshSpec
from prefect_tpu.infra.meshes import REST, Devices, MeshShape, fit_mesh, parse_mesh
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.slices import by_slice

if TYPE_CHECKING:
    import numpy as np
    from jax import Device
    from jax.sharding import AxisType, Mesh

_TYPES = {"auto": "Auto", "explicit": "Explicit"}


def mesh(spec: MeshSpec | None = None, dcn: MeshSpec | None = None, types: str | Mapping[str, str] = "auto") -> Mesh:
    """A mesh over all devices of all slices. Without a spec the job's own; where it has none, one axis `data`.

    JAX's own `make_mesh` takes the first devices where a shape needs fewer than
    there are, and types its axes Explicit; this one refuses the first, and lets the
    compiler place what the program does not (Auto).

    On several slices the part within each lies on its fast network, in the order that JAX's
    `create_hybrid_device_mesh` gives it. Slices of this machine are groups of hosts, in the same order.

    Args:
        spec: `{"data": -1, "tp": 4}` or `[[4, 2], ["fsdp", "tp"]]`, also as text, and `("(4,2)", "('fsdp','tp')")`;
            -1 takes the rest. Sizes are over all slices together.
        dcn: of the axes that go over slices, over how many each; -1 takes all that others leave. Without it the first
            axis whose size divides by the slices goes over all of them.
        types: `auto` or `explicit`, of all axes or by axis; axes that are not named are `auto`.

    Raises:
        UsageError: the spec cannot be read, does not use exactly the devices there are, or cannot go over the slices.
    """
    import jax

    return mesh_over(jax.devices(), _of_job() if spec is None else spec, dcn, types)


def mesh_over(
    devices: Sequence[Device],
    spec: MeshSpec,
    dcn: MeshSpec | None = None,
    types: str | Mapping[str, str] = "auto",
) -> Mesh:
    """The mesh that a program has where these are the devices of all slices; the compiler is asked of such ones."""
    import jax

    slices = by_slice(devices)
    shape = fit_mesh(
        parse_mesh(spec),
        Devices(count=len(devices), slices=len(slices)),
        None if dcn is None else parse_mesh(dcn, "dcn"),
    )
    return jax.sharding.Mesh(placed(slices, shape), shape.names, axis_types=_axis_types(types, shape.names))


def _of_job() -> MeshSpec:
    here = context()
    return here.plan.mesh if here is not None and here.plan.mesh else {"data": REST}


def placed(slices: Sequence[Sequence[Device]], shape: MeshShape) -> np.ndarray[Any, np.dtype[Any]]:
    """The devices by axis: of each axis the slices outside, and what lies within one inside."""
    import numpy as np

    within, over = shape.within_slice, shape.over_slices or (1,) * len(shape.sizes)
    parts = np.stack([_within(devices, within) for devices in slices]).reshape(*over, *within)
    count = len(within)
    order = [place for axis in range(count) for place in (axis, count + axis)]
    return parts.transpose(order).reshape(shape.sizes)


def _within(devices: Sequence[Device], sizes: tuple[int, ...]) -> np.ndarray[Any, np.dtype[Any]]:
    """The devices of one slice, so that neighbours in the mesh are neighbours in the slice."""
    from jax.experimental import mesh_utils

    try:
        return mesh_utils.create_device_mesh(sizes, devices, allow_split_physical_axes=False)
    except NotImplementedError:  # no axis has whole sides of the slice: slower than one that has, but not wrong
        return mesh_utils.create_device_mesh(sizes, devices, allow_split_physical_axes=True)


def _axis_types(types: str | Mapping[str, str], names: tuple[str, ...]) -> tuple[AxisType, ...]:
    from jax.sharding import AxisType

    by_axis = types if isinstance(types, Mapping) else dict.fromkeys(names, types)
    for name, kind in by_axis.items():
        if name not in names:
            raise UsageError(f"types has the axis {name!r}, and the mesh has {', '.join(names)}: name one of these.")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise UsageError(f"types has {kind!r}: use {' or '.join(map(repr, _TYPES))}, for all axes or by axis.")
    return tuple(AxisType[_TYPES[by_axis.get(name, "auto")]] for name in names)
