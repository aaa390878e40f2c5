"""Which part of each array of a state lies on which device? By one rule, which fits whatever shapes there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.errors import UsageError

if TYPE_CHECKING:
    from jax.sharding import Mesh


def fsdp(state: Any, mesh: Mesh, axis: str = "fsdp") -> Any:
    """A sharding for each array of a state, so that the devices of one axis hold a part each (fully sharded, ZeRO).

    Of each array the largest dimension that divides by the axis is split over it; an array without one, such as a
    number or an odd bias, lies whole on every device. Parameters and what an optimizer remembers of them have the same
    shapes, so they are split alike.

    With `jax.jit(new_state, out_shardings=fsdp(jax.eval_shape(new_state), mesh))()` the state is whole nowhere.

    Args:
        state: a tree of arrays, or of their shapes as `jax.eval_shape` gives them.
        mesh: as `tpu.mesh({"fsdp": -1})` makes it; it may have other axes.
        axis: the one to split over.

    Returns:
        The same tree with a `jax.sharding.NamedSharding` for each array.

    Raises:
        UsageError: the mesh has no such axis.
    """
    import jax
    import numpy as np

    if axis not in mesh.shape:
        raise UsageError(f"The mesh has no axis {axis!r}, only {', '.join(mesh.shape)}: name one of them.")
    size = mesh.shape[axis]
    spec: Any = jax.sharding.PartitionSpec  # has types in some versions only

    def sharding(leaf: Any) -> jax.sharding.NamedSharding:
        shape = leaf.shape if hasattr(leaf, "shape") else np.shape(leaf)
        split = dimension_to_split(shape, size)
        names = () if split is None else (*[None] * split, axis)
        return jax.sharding.NamedSharding(mesh, spec(*names))

    return jax.tree.map(sharding, state)


def dimension_to_split(shape: Sequence[int], parts: int) -> int | None:
    """The largest dimension that divides by so many parts, the first of equal ones; None where none does."""
    divisible = [number for number, length in enumerate(shape) if length and length % parts == 0]
    return max(divisible, key=lambda number: shape[number], default=None)
