"""Over slices the devices lie as JAX's own hybrid mesh has them, also where a slice's sides must be split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from prefect_tpu.infra.errors import UsageError, WrongSlice
from prefect_tpu.infra.meshes import Devices, MeshShape, fit_mesh, parse_mesh
from prefect_tpu.infra.training.mesh import _axis_types
from prefect_tpu.infra.training.mesh import placed as devices_by_axis
from prefect_tpu.infra.training.slices import by_slice


@dataclass(frozen=True)
class Chip:
    """What JAX looks at of a TPU to place it in a mesh."""

    id: int
    slice_index: int
    coords: tuple[int, int, int]
    platform: str = "tpu"
    device_kind: str = "TPU v6 lite"
    core_on_chip: int = 0
    process_index: int = 0


def chips(slices: int, side: int = 4) -> Any:
    """Slices of side x side chips, in the order of JAX."""
    places = [(x, y, 0) for y in range(side) for x in range(side)]
    return [Chip(n * side**2 + i, n, place) for n in range(slices) for i, place in enumerate(places)]


def placed(devices: Any, shape: MeshShape) -> list[Any]:
    return [chip.id for chip in devices_by_axis(by_slice(devices), shape).flat]


@pytest.mark.parametrize(
    ("spec", "dcn", "within", "over"),
    [
        ("data=-1,tp=4", None, (4, 4), (2, 1)),
        ("data=8,tp=4", "tp=2", (8, 2), (1, 2)),
        ("data=1,fsdp=32", None, (1, 16), (1, 2)),
    ],
)
def test_it_is_the_hybrid_mesh_of_jax(spec: str, dcn: str | None, within: Any, over: Any) -> None:
    from jax.experimental import mesh_utils

    shape = fit_mesh(parse_mesh(spec), Devices(count=32, slices=2), dcn and parse_mesh(dcn))  # type: ignore[arg-type]
    theirs = mesh_utils.create_hybrid_device_mesh(within, over, chips(2), allow_split_physical_axes=True)
    assert placed(chips(2), shape) == [chip.id for chip in theirs.flat]


def test_a_mesh_that_splits_the_sides_of_a_slice_is_made_all_the_same() -> None:
    """JAX's own `make_mesh` refuses it on v6e."""
    shape = fit_mesh(parse_mesh("data=2,tp=8"), Devices(count=16))
    assert sorted(placed(chips(1), shape)) == list(range(16))


def test_slices_of_unequal_size_are_refused() -> None:
    with pytest.raises(WrongSlice, match="The slices have 16, 15 devices"):
        by_slice(chips(2)[:-1])


@pytest.mark.parametrize(
    ("types", "kinds"),
    [("auto", "Auto Auto"), ("explicit", "Explicit Explicit"), ({"tp": "explicit"}, "Auto Explicit")],
)
def test_axes_have_the_types_that_are_said(types: str | Mapping[str, str], kinds: str) -> None:
    assert [kind.name for kind in _axis_types(types, ("data", "tp"))] == kinds.split()


@pytest.mark.parametrize(
    ("types", "says"),
    [
        ("manual", "types has 'manual': use 'auto' or 'explicit', for all axes or by axis"),
        (["auto", "explicit"], r"types has \['auto', 'explicit'\]: use"),
        ({"tp": ["auto"]}, r"types has \['auto'\]: use"),
        ({"x": "auto"}, "types has the axis 'x', and the mesh"),
    ],
)
def test_other_types_are_refused(types: str | Mapping[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        _axis_types(types, ("data", "tp"))


def test_arrays_are_of_devices_themselves() -> None:
    shape = fit_mesh(parse_mesh("data=-1"), Devices(count=4))
    assert devices_by_axis(by_slice(chips(1, side=2)), shape).dtype == np.dtype(object)
