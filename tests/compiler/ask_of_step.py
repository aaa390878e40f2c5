"""What libtpu itself says of an example's step, in as few lines as that takes. Nothing of ours is asked for it.

Standard input: JSON, {"file": path, "params": {…}, "devices": 16, "questions": [{"topology": "v6e:4x4",
"host": [2, 2, 1], "slices": 1}, …]}. Standard output, last line: a list of the figures.
"""

import json
import os
import runpy
import sys

asked = json.load(sys.stdin)
os.environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(asked["devices"]))
import jax  # noqa: E402
from jax.experimental import mesh_utils, topologies  # noqa: E402


class AtStep(BaseException):
    pass


def stop(*args):
    raise AtStep(args)


program = runpy.run_path(asked["file"])
step, program["main"].__globals__["train_step"] = program["main"].__globals__["train_step"], stop
try:
    program["main"](**asked["params"])
except AtStep as caught:
    args = caught.args[0]


def figures(topology, host, slices):
    found = topologies.get_topology_desc(topology, "tpu", chips_per_host_bounds=host, num_slices=slices).devices

    def there(leaf):
        if not isinstance(leaf, jax.Array):
            return leaf
        shape = leaf.sharding.mesh.devices.shape
        over = tuple(slices if axis == 0 else 1 for axis in range(len(shape)))
        within = tuple(size // parts for size, parts in zip(shape, over, strict=True))
        hybrid = mesh_utils.create_hybrid_device_mesh
        devices = hybrid(within, over, found) if slices > 1 else mesh_utils.create_device_mesh(shape, found)
        mesh = jax.sharding.Mesh(devices, leaf.sharding.mesh.axis_names)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=jax.NamedSharding(mesh, leaf.sharding.spec))

    compiled = step.lower(*jax.tree.map(there, args)).compile()
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    return {
        "arguments": memory.argument_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
        "flops": cost["flops"],
        "bytes_accessed": cost["bytes accessed"],
    }


print(json.dumps([figures(**question) for question in asked["questions"]]))
