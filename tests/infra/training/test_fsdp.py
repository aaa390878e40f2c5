"""The rule of the largest dimension that divides, and the shardings that it gives."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.fsdp import dimension_to_split, fsdp


@pytest.mark.parametrize(
    ("shape", "parts", "split"),
    [
        ((), 4, None),  # a counter
        ((3,), 4, None),
        ((8,), 4, 0),
        ((4, 8), 4, 1),
        ((8, 8), 4, 0),  # the first of equal ones
        ((6, 9, 4), 3, 1),
        ((1023, 8), 8, 1),  # the largest does not divide
        ((0, 8), 8, 1),
        ((0,), 8, None),
        ((7, 5), 1, 0),
    ],
)
def test_which_dimension_is_split(shape: tuple[int, ...], parts: int, split: int | None) -> None:
    assert dimension_to_split(shape, parts) == split


def test_each_array_of_a_state_has_a_sharding_of_its_own() -> None:
    import jax
    import numpy as np

    mesh = jax.make_mesh((1, 1), ("data", "fsdp"), devices=jax.devices()[:1])
    state = {"wide": jax.ShapeDtypeStruct((2, 6), np.float32), "count": np.int32(3), "number": 1, "none": None}
    found = fsdp(state, mesh)
    assert {name: tuple(found[name].spec) for name in ("wide", "count", "number")} == {
        "wide": (None, "fsdp"),
        "count": (),
        "number": (),
    }
    assert found["none"] is None and found["wide"].mesh == mesh


def test_a_mesh_without_the_axis_is_refused() -> None:
    import jax

    with pytest.raises(UsageError, match="no axis 'fsdp', only data"):
        fsdp({}, jax.make_mesh((1,), ("data",), devices=jax.devices()[:1]))
