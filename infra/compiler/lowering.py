"""How does a step that was called on CPU devices come to the devices of a slice that is not there?

By `jax.export`: it writes the step down without its devices, also where the step names its mesh inside. Of what it
writes the compiler makes the same program as of the step itself. What is donated gets lost on the way and is said
again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prefect_tpu.infra.compiler.capture import Call
from prefect_tpu.infra.meshes import Devices, MeshShape, fit_mesh

if TYPE_CHECKING:
    from jax import Device
    from jax.export import Exported
    from jax.sharding import AxisType, Mesh
    from jax.stages import Compiled, Lowered


class WrongDevices(Exception):
    """The step does not use all devices of the slice."""

    def __init__(self, used: int, there: int) -> None:
        self.used, self.there = used, there
        super().__init__(f"the step runs on {used} of {there} devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Portable:
    """A step without its devices.

    shape: of the mesh that its arguments lie on.
    types: of its axes, as JAX has them.
    donated: which arguments are, by place and by name.
    """

    exported: Exported
    shape: MeshShape
    types: tuple[AxisType, ...]
    donated: tuple[int, ...]
    donated_names: tuple[str, ...]

    def on(self, devices: Sequence[Device]) -> tuple[Lowered, Mesh]:
        """The step lowered for the devices of a slice, and the mesh that it has there."""
        import jax

        from prefect_tpu.infra.training.mesh import placed
        from prefect_tpu.infra.training.slices import by_slice

        mesh = jax.sharding.Mesh(placed(by_slice(devices), self.shape), self.shape.names, axis_types=self.types)
        args, kwargs = self._abstract(mesh)
        step = jax.jit(self.exported.call, donate_argnums=self.donated, donate_argnames=self.donated_names)
        with jax.set_mesh(_no_mesh()):  # the program may have set its own for good, which has this machine's devices
            return step.lower(*args, **kwargs), mesh

    def _abstract(self, mesh: Mesh) -> Any:
        import jax

        told = self.exported.in_shardings_jax(mesh)
        # Where nothing says on which devices the step is, JAX would take this machine's.
        shardings = told if any(told) else [jax.NamedSharding(mesh, jax.P())] * len(told)  # type: ignore[no-untyped-call]
        leaves = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)  # type: ignore[no-untyped-call]
            for aval, sharding in zip(self.exported.in_avals, shardings, strict=True)
        ]
        return jax.tree.unflatten(self.exported.in_tree, leaves)


def _no_mesh() -> Mesh:
    import jax
    import numpy as np

    return jax.sharding.Mesh(np.empty((), dtype=object), ())


def portable(call: Call, slices: int) -> Portable:
    """The step of a call on this process's devices, in which each slice has an equal part, one after the other.

    Raises `WrongDevices`, or whatever tracing the step raises.
    """
    import jax

    step: Any = call.function if hasattr(call.function, "trace") else _jitted(call)
    exported = jax.export.export(step, platforms=["tpu"])(*call.args, **call.kwargs)
    if exported.nr_devices != jax.device_count():
        raise WrongDevices(exported.nr_devices, jax.device_count())
    mesh = _mesh(call, exported)
    args, kwargs = step.trace(*call.args, **call.kwargs).args_info
    return Portable(
        exported=exported,
        shape=_shape(mesh, slices),
        types=mesh.axis_types,
        donated=tuple(place for place, argument in enumerate(args) if _is_donated(argument)),
        donated_names=tuple(name for name, argument in kwargs.items() if _is_donated(argument)),
    )


def check_devices(compiled: Compiled, devices: Sequence[Device]) -> None:
    """Raise `WrongDevices` where a step was lowered for others than those of the slice, or for some of them."""
    import jax

    told = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    used = {device for sharding in told for device in sharding.device_set}
    if told and used != set(devices):
        raise WrongDevices(len(used & set(devices)), len(devices))


def _jitted(call: Call) -> Any:
    """A plain function; what is no array, such as the object of a method, is the same for all its steps."""
    import jax

    fixed = [place for place, argument in enumerate(call.args) if not all(map(_is_array, jax.tree.leaves(argument)))]
    names = [name for name, value in call.kwargs.items() if not all(map(_is_array, jax.tree.leaves(value)))]
    return jax.jit(call.function, static_argnums=fixed, static_argnames=names)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, int | float | complex) or hasattr(leaf, "dtype")


def argument_bytes(lowered: Lowered) -> int | None:
    """What a device holds of the step's arguments; None where JAX does not tell how they lie."""
    inside: Any = lowered
    try:
        told = inside._lowering.compile_args  # JAX says it nowhere in public before the step is compiled
        pairs = list(zip(told["global_in_avals"], told["in_shardings"], strict=True))
        held = [math.prod(_held(sharding, aval.shape)) * aval.dtype.itemsize for aval, sharding in pairs]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return int(sum(held))


def _held(sharding: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The part of an array that a device has; the whole where nobody has said."""
    held: tuple[int, ...] = sharding.shard_shape(shape) if hasattr(sharding, "shard_shape") else shape
    return held


def _is_donated(argument: Any) -> bool:
    import jax

    return any(leaf.donated for leaf in jax.tree.leaves(argument))


def _mesh(call: Call, exported: Exported) -> Mesh:
    """On which the arguments lie. JAX holds all of them to one order of devices, so any one tells it."""
    import jax

    count = jax.device_count()
    found = [leaf.sharding.mesh for leaf in jax.tree.leaves((call.args, call.kwargs)) if _is_on_mesh(leaf)]
    for mesh in found:
        if mesh.size == count:
            return jax.sharding.Mesh(mesh.devices, mesh.axis_names, axis_types=mesh.axis_types)
    # The step may say itself where its arguments go: then JAX has no devices of theirs, which lie in order.
    for sharding in getattr(exported, "_in_named_shardings", ()):
        if sharding is not None and sharding.mesh.size == count:
            mesh = sharding.mesh
            return jax.make_mesh(mesh.axis_sizes, mesh.axis_names, axis_types=mesh.axis_types)
    return jax.make_mesh((count,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))


def _is_on_mesh(leaf: Any) -> bool:
    import jax

    return isinstance(getattr(leaf, "sharding", None), jax.NamedSharding)


def _shape(mesh: Mesh, slices: int) -> MeshShape:
    """The shape, with the slices that each axis goes over, read from where the devices lie in it."""
    import jax

    each = jax.device_count() // slices
    places = {device: place // each for place, device in enumerate(jax.devices())}
    over = tuple(len({places[d] for d in _along(mesh.devices, axis)}) for axis in range(mesh.devices.ndim))
    shape = MeshShape(names=tuple(mesh.axis_names), sizes=tuple(mesh.devices.shape), over_slices=over)
    if math.prod(over) == slices:
        return shape
    return fit_mesh(replace(shape, over_slices=()), Devices(count=jax.device_count(), slices=slices))


def _along(devices: Any, axis: int) -> list[Any]:
    """The devices of one line along an axis."""
    return list(devices[tuple(slice(None) if place == axis else 0 for place in range(devices.ndim))])
