"""What of a state Orbax cannot store is refused before anything is written, leaf by leaf."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import leaves


@pytest.mark.parametrize(
    ("leaf", "said"),
    [
        ("text", "a str"),
        (1j, "a complex"),
        (np.array(["text"]), "of the type <U4"),
        (np.bytes_("text"), "of the type |S4"),
        (np.array([{}], object), "of the type object"),
        (np.datetime64("2026-01-01"), "of the type datetime64"),
        (np.ones(2, ml_dtypes.uint4), "of the type uint4"),
        (2**70, "of the type object"),
        (np.zeros((0, 4)), "an array without elements"),
    ],
)
def test_a_leaf_that_is_not_stored_is_named(leaf: Any, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        leaves.to_disk({"params": {"w": leaf}, "step": 3})
    assert str(raised.value).startswith(f"The state cannot be saved: ['params']['w'] is {said}")


def test_every_other_type_is_stored_as_it_is() -> None:
    import jax
    import jax.numpy as jnp

    types = ["bool", "int8", "uint64", "float16", "complex64", *(f"float8_{kind}" for kind in ("e4m3fn", "e8m0fnu"))]
    state = {
        "types": [jnp.ones(2, getattr(jnp, name)) for name in ("bfloat16", "int4", "float32")],
        "numpy": {name: np.ones(2, getattr(ml_dtypes, name, name)) for name in types},
        "plain": [True, 2**63, 1.5, None],
    }
    stored = leaves.to_disk(state)
    assert jax.tree.structure(stored) == jax.tree.structure(state)
    assert all(left is right for left, right in zip(jax.tree.leaves(stored), jax.tree.leaves(state), strict=True))


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ({"a.b": 1, "a": {"b": 2}}, "['a']['b'] and ['a.b'] have one name in a checkpoint, 'a.b'"),
        ({"layer.0": 1, "layer": [2]}, "['layer'][0] and ['layer.0']"),
    ],
)
def test_two_leaves_that_would_be_one_are_refused(state: Any, names: str) -> None:
    """Orbax keeps one of them, and restores it as both."""
    with pytest.raises(UsageError) as raised:
        leaves.to_disk(state)
    assert names in str(raised.value)
    assert leaves.to_disk({"a.b": 1, "a": {"c": 2}}) == {"a.b": 1, "a": {"c": 2}}
