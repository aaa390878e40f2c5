"""How do the rows of all hosts become one array? Side by side, in the hosts' order, laid out as asked."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import agreement, same_rows
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.mesh import mesh

if TYPE_CHECKING:
    import jax

Tree = TypeVar("Tree")
Layout: TypeAlias = "jax.NamedSharding | jax.sharding.Mesh | jax.P | str | tuple[str, ...] | None"


def global_array(rows: Tree, sharding: Layout = None) -> Tree:
    """One `jax.Array` of the rows that all hosts hand over, for each array of a tree of them. A collective.

    Row i of host 1 comes after the last one of host 0, whatever the mesh. Where no device needs another host's rows
    nothing is sent between hosts; else the mesh has an axis in which hosts share rows, and they are.

    Args:
        rows: this host's rows: arrays, or tuples, lists and dicts of them. All hosts give as many.
        sharding: how they are laid out: a `NamedSharding`; a mesh of one axis; axes or a `PartitionSpec` of the mesh
            that `jax.set_mesh` was told. None: over all devices.

    Raises:
        UsageError: the hosts' rows differ in number, shape or type, all together they do not divide by the devices
            they go to, or the layout is not one.
    """
    import jax

    layout = _layout(sharding)
    _check_met(layout)
    leaves, tree = jax.tree_util.tree_flatten_with_path(rows)
    own = {jax.tree_util.keystr(path) or "the array": leaf for path, leaf in leaves}
    own = {name: _own(name, leaf) for name, leaf in own.items()}
    same_rows.check({name: (str(leaf.dtype), leaf.shape) for name, leaf in own.items()})
    whole: Tree = jax.tree.unflatten(tree, [_whole(name, leaf, layout) for name, leaf in own.items()])
    return whole


def _layout(sharding: Layout) -> jax.NamedSharding:
    import jax

    if isinstance(sharding, jax.NamedSharding):
        return sharding
    if isinstance(sharding, jax.sharding.Mesh):
        if len(sharding.axis_names) > 1:
            raise UsageError(
                f"global_array() was given a mesh of the axes {', '.join(map(str, sharding.axis_names))}: say over"
                f" which the rows go, as in NamedSharding(mesh, PartitionSpec({sharding.axis_names[0]!r}))."
            )
        return jax.NamedSharding(sharding, _spec(*sharding.axis_names))
    told = jax.sharding.get_mesh()
    if sharding is None:
        over = mesh() if told.empty else told
        return jax.NamedSharding(over, _spec(over.axis_names))
    spec = sharding if isinstance(sharding, jax.P) else _spec(sharding)
    if told.empty:
        raise UsageError(
            f"global_array() was given {sharding!r}, but no mesh is set whose axes these are: call jax.set_mesh(mesh)"
            " before, or give a NamedSharding(mesh, …)."
        )
    try:
        return jax.NamedSharding(told, spec)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"global_array() was given {sharding!r} for the mesh {dict(told.shape)}: {exc}") from exc


def _spec(*axes: Any) -> jax.P:
    import jax

    return jax.P(*axes)  # type: ignore[no-untyped-call]


def _check_met(layout: jax.NamedSharding) -> None:
    hosts = agreement.peers()
    here = context()
    if here is not None and here.plan.hosts > hosts:
        raise UsageError(
            f"Host {here.host} of job {here.plan.job!r} has not met the other {here.plan.hosts - 1}:"
            " call prefect_tpu.join() at the start of the program."
        )
    if not _is_even(layout, hosts):
        raise UsageError(
            f"The mesh {dict(layout.mesh.shape)} does not take the same number of devices of each of {hosts} hosts:"
            " make it with prefect_tpu.mesh(), which takes all."
        )


@lru_cache(maxsize=64)  # a large slice has thousands of devices
def _is_even(layout: jax.NamedSharding, hosts: int) -> bool:
    by_host = Counter(device.process_index for device in _devices(layout))
    return len({by_host[host] for host in range(hosts)}) == 1


def _own(name: str, leaf: Any) -> Any:
    import jax
    import numpy as np

    if isinstance(leaf, jax.Array):
        if not leaf.is_fully_addressable:
            raise UsageError(f"{name} of global_array() lies over all hosts already: give it this host's rows.")
        array: Any = leaf if agreement.peers() == 1 else np.asarray(leaf)
    else:
        array = np.asarray(leaf)
    if not array.ndim or (isinstance(array, np.ndarray) and (array.dtype.kind in "OSUMm" or array.dtype.names)):
        raise UsageError(
            f"{name} of global_array() is no array of numbers with rows but a {type(leaf).__name__}: give it NumPy"
            ' arrays, of a data set of Hugging Face by .with_format("numpy").'
        )
    return array


def _whole(name: str, own: Any, layout: jax.NamedSharding) -> jax.Array:
    import jax

    hosts = agreement.peers()
    shape = (own.shape[0] * hosts, *own.shape[1:])
    _check_divides(name, shape, layout, hosts)
    if hosts == 1:
        whole: jax.Array = jax.device_put(own, layout)
    elif _stays(layout, shape, hosts):
        whole = _laid(own, shape, layout)
    else:
        whole = jax.device_put(_laid(own, shape, _side_by_side(layout, hosts)), layout)
    return whole


def _check_divides(name: str, shape: tuple[int, ...], layout: jax.NamedSharding, hosts: int) -> None:
    if len(layout.spec) > len(shape):
        raise UsageError(
            f"{name} of global_array() has {len(shape)} dimensions, and its layout {layout.spec} says more:"
            " call it once for arrays of each layout."
        )
    for dimension, (size, axes) in enumerate(zip(shape, layout.spec, strict=False)):
        over = () if axes is None else axes if isinstance(axes, tuple) else (axes,)
        parts = math.prod(layout.mesh.shape[axis] for axis in over)
        if size % parts:
            what = f"rows ({size // hosts} of each host)" if not dimension else f"numbers in dimension {dimension}"
            less = size - size % parts
            raise UsageError(
                f"{name} of global_array() has {size} {what}, which do not divide by the {parts} parts of"
                f" {', '.join(over)}: make it {f'{less} or ' if less else ''}{less + parts}."
            )


@lru_cache(maxsize=64)
def _stays(layout: jax.NamedSharding, shape: tuple[int, ...], hosts: int) -> bool:
    """Whether each device needs rows of its own host alone; the same answer on all hosts."""
    each = shape[0] // hosts
    layouts: Any = layout.devices_indices_map(shape)
    for device, where in layouts.items():
        first, end, _ = where[0].indices(shape[0])
        if first < device.process_index * each or end > (device.process_index + 1) * each:
            return False
    return True


def _side_by_side(layout: jax.NamedSharding, hosts: int) -> jax.NamedSharding:
    """Each host's rows on all of its own devices, from where JAX sends them to where they go."""
    import jax
    import numpy as np

    devices = sorted(_devices(layout), key=lambda device: (device.process_index, device.id))
    by_host = jax.sharding.Mesh(np.asarray(devices).reshape(hosts, -1), ("host", "device"))
    return jax.NamedSharding(by_host, _spec("host"))


def _laid(own: Any, shape: tuple[int, ...], layout: jax.NamedSharding) -> jax.Array:
    """This host's part of the array of all, where its devices need its own rows alone."""
    import jax

    first = agreement.place()[0] * own.shape[0]

    def rows_at(where: Any) -> Any:
        start, end, _ = where[0].indices(shape[0])
        return own[(slice(start - first, end - first), *where[1:])]

    return jax.make_array_from_callback(shape, layout, rows_at)


def _devices(layout: jax.NamedSharding) -> list[Any]:
    """In no order."""
    return list(layout.device_set)
