"""What becomes one array, and what is refused; on several hosts: tests/slices/test_rows.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import same_rows
from prefect_tpu.infra.training.global_array import global_array


def layout(*axes: Any) -> jax.NamedSharding:
    mesh = jax.make_mesh((1, 1), ("data", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    return jax.NamedSharding(mesh, jax.P(*axes))


def test_a_tree_comes_back_with_its_rows() -> None:
    made = global_array(
        {"x": np.arange(6.0).reshape(3, 2), "pair": (np.arange(3), jax.numpy.arange(3))}, layout("data")
    )
    assert made["x"].tolist() == [[0, 1], [2, 3], [4, 5]] and made["pair"][1].tolist() == [0, 1, 2]
    assert made["x"].sharding == layout("data")
    assert global_array(np.arange(3)).sharding.spec == jax.P(("data",))


def test_axes_are_those_of_the_mesh_that_is_set() -> None:
    with jax.set_mesh(layout().mesh):
        for over in ("data", ("data", "tp"), jax.P("data")):
            assert global_array(np.arange(2), over).sharding.mesh.shape == {"data": 1, "tp": 1}
        with pytest.raises(UsageError, match=r"given 'fsdp' for the mesh {'data': 1, 'tp': 1}: .*fsdp"):
            global_array(np.arange(2), "fsdp")


@pytest.mark.parametrize(
    ("rows", "over", "says"),
    [
        (3, None, "the array of global_array.. is no array of numbers with rows but a int"),
        ({"x": [1, 2]}, None, r"\['x'\]\[0\] of global_array.. is no array .* Hugging Face by"),
        (np.array(["a"]), None, "is no array of numbers"),
        (np.zeros(2, [("x", "f4")]), None, "is no array of numbers"),
        (np.arange(2), "data", "given 'data', but no mesh is set"),
        (np.arange(2), lambda: layout().mesh, r"a mesh of the axes data, tp: .*PartitionSpec\('data'\)"),
        (np.arange(2), lambda: layout("data", "tp"), "has 1 dimensions, and its layout .* says more"),
    ],
)
def test_refuses(rows: Any, over: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        global_array(rows, over() if callable(over) else over)  # no JAX while tests are collected


def test_hosts_that_have_not_met_are_told_to_join(inside_job: Callable[..., Any]) -> None:
    inside_job(host=1, hosts=4)
    with pytest.raises(UsageError, match=r"Host 1 of job 'digits' has not met the other 3: call prefect_tpu.join\(\)"):
        global_array(np.arange(2))


def test_what_the_hosts_have_is_compared() -> None:
    assert same_rows.difference(["x float32[4, 2]"] * 3) == ""
    told = same_rows.difference(["x float32[4, 2]", "x float32[3, 2]"] + ["x float32[4, 2]"] * 6)
    assert "hosts 0, 2, 3, 4 and 3 more: x float32[4, 2]; host 1: x float32[3, 2]. Give it equal shares" in told
