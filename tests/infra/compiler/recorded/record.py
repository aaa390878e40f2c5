"""Records what Google's TPU compiler writes and says: the files beside this one. Needs `jax[tpu]`, and no TPU.

    PREFECT_TPU_COMPILER_PYTHON=… ; "$PREFECT_TPU_COMPILER_PYTHON" tests/infra/compiler/recorded/record.py [NAME…]

Some seconds for each program; with names only those.
"""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1", JAX_NUM_CPU_DEVICES="8")

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import mesh_utils, topologies
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

HERE = Path(__file__).parent
HOST = [2, 2, 1]


def mesh(topology: str, sizes: tuple[int, ...], names: tuple[str, ...], slices: int = 1) -> Mesh:
    devices = topologies.get_topology_desc(
        platform="tpu", topology_name=topology, chips_per_host_bounds=HOST, num_slices=slices
    ).devices
    if slices == 1:
        return Mesh(mesh_utils.create_device_mesh(sizes, devices), names)
    over = (slices, *[1] * (len(sizes) - 1))
    within = tuple(size // part for size, part in zip(sizes, over, strict=True))
    return Mesh(mesh_utils.create_hybrid_device_mesh(within, over, devices), names)


def array(where: Mesh, shape: tuple[int, ...], *spec: Any, dtype: Any = jnp.bfloat16) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(where, P(*spec)))


def layers(where: Mesh, *, scanned: bool, micro: int = 1) -> Any:
    """Some layers of two matrices each, which are shared out over both axes; `micro` parts of a batch in turn."""

    def layer(x: Any, weights: Any) -> Any:
        x = jax.lax.with_sharding_constraint(x, NamedSharding(where, P("fsdp", None)))
        return jax.nn.relu(x @ weights[0]) @ weights[1] + x, None

    def loss(weights: Any, x: Any) -> Any:
        if scanned:
            x, _ = jax.lax.scan(layer, x, weights)
        else:
            for number in range(weights[0].shape[0]):
                x, _ = layer(x, (weights[0][number], weights[1][number]))
        return (x.astype(jnp.float32) ** 2).mean()

    def step(weights: Any, x: Any) -> Any:
        def part(total: Any, x: Any) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(loss)(weights, x)), None

        if micro == 1:
            grads = jax.grad(loss)(weights, x)
        else:
            grads, _ = jax.lax.scan(part, jax.tree.map(jnp.zeros_like, weights), x)
        return jax.tree.map(lambda w, g: (w - 0.1 * g).astype(w.dtype), weights, grads)

    count, inner, outer, batch = (8 if scanned else 2), 512, 2048, 256
    weights = (
        array(where, (count, inner, outer), None, "fsdp", "tp"),
        array(where, (count, outer, inner), None, "tp", "fsdp"),
    )
    x = (batch, inner) if micro == 1 else (micro, batch, inner)
    return jax.jit(step, donate_argnums=0).lower(weights, array(where, x, *[None] * (micro > 1), "fsdp", None))


def every_kind(where: Mesh) -> Any:
    """One of each operation by which devices exchange something, over an axis."""

    def exchanging(x: Any) -> Any:
        size = where.shape["fsdp"]
        summed = jax.lax.psum(x, "fsdp") + jax.lax.psum(x, "tp")
        gathered = jax.lax.all_gather(x, "fsdp").sum(0)
        turned = jax.lax.all_to_all(x, "fsdp", 0, 0, tiled=True)
        passed = jax.lax.ppermute(x, "fsdp", [(place, (place + 1) % size) for place in range(size)])
        return summed + gathered + turned + passed + jax.lax.psum_scatter(x, "fsdp", tiled=True).sum()

    spec = P("fsdp", "tp")
    run = jax.shard_map(exchanging, mesh=where, in_specs=spec, out_specs=spec)
    return jax.jit(run).lower(array(where, (1024, 512), *spec, dtype=jnp.float32))


def unknown_rounds(where: Mesh) -> Any:
    """A sum over an axis in a loop that ends when a value is small, and one in a branch."""

    def looping(x: Any) -> Any:
        x = jax.lax.while_loop(lambda x: x[0, 0] > 1, lambda x: jax.lax.psum(x, "fsdp") / 16, x)
        return jax.lax.cond(x[0, 1] > 1, lambda x: jax.lax.psum(x, "tp"), lambda x: x * 2, x)

    spec = P(None, None)
    run = jax.shard_map(looping, mesh=where, in_specs=spec, out_specs=spec, check_vma=False)
    return jax.jit(run).lower(array(where, (256, 256), *spec, dtype=jnp.float32))


def multiplications(where: Mesh) -> Any:
    """Matrices in batches, and pictures under windows: whatever the compiler makes convolutions of."""

    def multiplied(query: Any, key: Any, picture: Any, window: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
        seen = jax.lax.conv_general_dilated(
            picture, window, (2, 2), ((1, 2), (0, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        spread = jax.lax.conv_general_dilated(
            picture, window, (1, 1), ((1, 1), (2, 0)), lhs_dilation=(2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return scores, seen, spread

    shapes = (4, 128, 6, 64), (4, 256, 6, 64), (8, 32, 30, 128), (3, 3, 128, 256)
    return jax.jit(multiplied).lower(*(array(where, shape) for shape in shapes))


V6E = ("v6e:4x4", (4, 4), ("fsdp", "tp"))
PROGRAMS: dict[str, Callable[[], Any]] = {
    "scanned": lambda: layers(mesh(*V6E), scanned=True),
    "unrolled": lambda: layers(mesh(*V6E), scanned=False),
    "accumulated": lambda: layers(mesh(*V6E), scanned=True, micro=4),
    "every_kind": lambda: every_kind(mesh(*V6E)),
    "two_slices": lambda: every_kind(mesh("v6e:4x4", (8, 4), ("fsdp", "tp"), 2)),
    "unknown_rounds": lambda: unknown_rounds(mesh(*V6E)),
    "multiplications": lambda: multiplications(mesh("v6e:2x2", (2, 2), ("fsdp", "tp"))),
    "v5p": lambda: layers(mesh("v5p:2x2x4", (4, 4), ("fsdp", "tp")), scanned=False),
    "tpu7x": lambda: every_kind(mesh("tpu7x:2x2x2", (4, 4), ("fsdp", "tp"))),
}


def too_large(topology: str, devices: int) -> Any:
    where = mesh(topology, (devices,), ("data",))
    return jax.jit(lambda w, x: x @ w).lower(
        array(where, (400_000, 400_000)), array(where, (16 * devices, 400_000), "data")
    )


def x64(call: Callable[[], Any]) -> Any:
    with jax.enable_x64(True):
        return call()


def refused() -> dict[str, Callable[[], Any]]:
    """What the compiler and JAX refuse."""
    where = mesh(*V6E)
    odd, square = array(where, (10, 64)), array(where, (8, 8), dtype=jnp.float32)
    data = NamedSharding(where, P("fsdp"))
    alone = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    export = lambda step: jax.export.export(jax.jit(step), platforms=["tpu"])(alone)  # noqa: E731
    return {
        **{
            f"too_large_{name}": lambda topology=topology, count=count: too_large(topology, count).compile()
            for name, topology, count in (
                ("v5e", "v5e:4x4", 16),
                ("v6e", "v6e:4x4", 16),
                ("v5p", "v5p:2x2x4", 16),
                ("tpu7x", "tpu7x:2x2x4", 32),
            )
        },
        "odd_argument": lambda: jax.jit(lambda x: x + 1).lower(array(where, (10, 64), "fsdp")),
        "odd_in_shardings": lambda: jax.jit(lambda x: x + 1, in_shardings=data).lower(odd),
        "odd_shard_map": lambda: jax.jit(
            jax.shard_map(lambda x: x + 1, mesh=where, in_specs=P("fsdp"), out_specs=P("fsdp"))
        ).lower(odd),
        "odd_device_put": lambda: jax.device_put(
            np.zeros((10, 3)), NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
        ),
        "no_such_axis": lambda: NamedSharding(where, P("rows")),
        "eig": lambda: jax.jit(jnp.linalg.eig).trace(square).lower(lowering_platforms=("tpu",)),
        "callback_exported": lambda: export(lambda x: jax.pure_callback(lambda v: v, alone, x)),
        "print_exported": lambda: export(lambda x: jax.debug.print("{}", x)),
        "kernel": lambda: jax.jit(lambda x: jax.ffi.ffi_call("my_cuda_kernel", alone)(x)).lower(square).compile(),
        "complex_128": lambda: x64(
            lambda: jax.jit(jnp.fft.fft).lower(array(where, (8, 8), dtype=jnp.complex128)).compile()
        ),
        "reshaped": lambda: np.array(jax.devices()).reshape(3, 5),
        "mesh_utils": lambda: mesh_utils.create_device_mesh((4, 5), where.devices.flatten()),
        "two_meshes": lambda: jax.jit(jnp.add).lower(square, array(mesh("v6e:2x2", (2, 2), ("a", "b")), (8, 8))),
        "array_on_the_slice": lambda: jax.device_put(np.ones((8, 8)), NamedSharding(where, P())),
        "call_on_the_slice": lambda: jax.jit(jnp.negative)(square),
        "compiled_twice": lambda: jax.jit(jax.jit(jnp.negative).lower(alone).compile())(np.ones((8, 8), np.float32)),
        "no_such_generation": lambda: mesh("tpu7:2x2x4", (16,), ("data",)),
    }


def shortened(text: str) -> str:
    """As it is, but for where in this file each line came from, and all settings but the cycles that were estimated."""
    text = re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*", "", text)
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    return re.sub(r", backend_config=\{.*", _cycles, text)


def _cycles(found: re.Match[str]) -> str:
    cycles = re.search(r'"estimated_cycles":"?(\d+)', found[0])
    return f', backend_config={{"estimated_cycles":"{cycles[1]}"}}' if cycles else ""


def record_program(name: str) -> None:
    compiled = PROGRAMS[name]().compile()
    (HERE / f"{name}.hlo").write_text(shortened(compiled.as_text()))
    cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
    words = {key: cost[key] for key in ("flops", "bytes accessed", "optimal_seconds") if key in cost}
    sizes = {key: getattr(memory, key) for key in dir(memory) if key.endswith("_in_bytes") and "host" not in key}
    (HERE / f"{name}.json").write_text(json.dumps({**words, **sizes}, indent=1) + "\n")


def words_of(call: Callable[[], Any]) -> dict[str, str]:
    try:
        call()
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = str(error).replace(str(HERE), "/program").replace(str(Path.home()), "/home")
        return {"type": type(error).__name__, "text": text, "last": last.name}
    return {}


if __name__ == "__main__":
    asked = sys.argv[1:] or [*PROGRAMS, "errors"]
    for name in asked:
        if name in PROGRAMS:
            record_program(name)
        else:
            errors = {name: words_of(call) for name, call in refused().items()}
            (HERE / "errors.json").write_text(json.dumps(errors, indent=1) + "\n")
        sys.stdout.write(f"{name}\n")
