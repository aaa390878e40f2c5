"""Which mesh spans the whole slice? A spec, fitted to the devices that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect_tpu.infra.meshes import REST, MeshSpec, fit_mesh, parse_mesh

if TYPE_CHECKING:
    from jax.sharding import Mesh


def mesh(spec: MeshSpec | None = None) -> Mesh:
    """A mesh over all devices of the slice; without a spec one axis, `data`.

    JAX's own `make_mesh` takes the first devices where a shape needs fewer than
    there are, and types its axes Explicit; this one refuses the first, and lets the
    compiler place what the program does not (Auto).

    Args:
        spec: `{"data": -1, "tp": 4}` or `[[4, 2], ["fsdp", "tp"]]`, also as text; -1 takes the rest.

    Raises:
        UsageError: the spec cannot be read, or does not use exactly the devices there are.
    """
    import jax

    devices = jax.devices()
    shape = fit_mesh(parse_mesh({"data": REST} if spec is None else spec), len(devices))
    auto = (jax.sharding.AxisType.Auto,) * len(shape.names)
    return jax.make_mesh(shape.sizes, shape.names, axis_types=auto, devices=devices)
