"""Asks Google's TPU compiler about slices. Runs in an environment of its own that has `jax[tpu]`; needs no TPU.

Standard input: a JSON list of {"topology": "v6e:4x4", "host": [2, 2, 1], "slices": 2}, `host` being one host's chips.
Standard output, last line: a JSON list of {"devices": 32, "processes": 8, "slices": 2}, or {"error": "..."} for a
slice that the compiler refuses.
"""

from __future__ import annotations

import json
import sys

from jax.experimental import topologies


def answer(question: dict) -> dict:
    try:
        devices = topologies.get_topology_desc(
            platform="tpu",
            topology_name=question["topology"],
            chips_per_host_bounds=question["host"],
            num_slices=question["slices"],
        ).devices
    except Exception as error:  # whatever the compiler says of this slice is the answer
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "devices": len(devices),
        "processes": len({device.process_index for device in devices}),
        "slices": len({getattr(device, "slice_index", 0) for device in devices}),  # a lone slice has no index
    }


if __name__ == "__main__":
    print(json.dumps([answer(question) for question in json.load(sys.stdin)]))
