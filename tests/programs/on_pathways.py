"""A program that drives all chips alone: it asks Pathways' proxy for them, and steps slowly enough to be disturbed."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

import prefect_tpu as tpu


def main(steps: int, workers: int, until_back: bool = False) -> dict[str, Any]:
    """So many steps; or until a worker was lost and has come back."""
    kind = _wait_for_chips(workers)["kind"]
    tpu.join()
    import jax
    import jax.numpy as jnp

    spread = jax.sharding.NamedSharding(tpu.mesh(), jax.sharding.PartitionSpec("data"))
    total, seen = jax.device_put(jnp.zeros(jax.device_count()), spread), [workers]
    with tpu.checkpoints() as checkpoints:
        total, start = checkpoints.restore(total)
        for step in range(start, steps):
            time.sleep(0.2)
            total = total + 1
            tpu.report(step, total=float(total[0]))
            checkpoints.save(step, total)
            if until_back and (there := len(_chips()["workers"])) != seen[-1]:
                seen.append(there)
            if len(seen) > 2:
                break
    return {
        "kind": kind,
        "start": start,
        "total": float(total[0]),
        "workers": seen,
        "hosts": tpu.info().hosts,
        "processes": jax.process_count(),
        "devices": jax.device_count(),
        "cache": os.environ.get("JAX_COMPILATION_CACHE_DIR", ""),
    }


def _wait_for_chips(workers: int) -> dict[str, Any]:
    """What JAX does itself, where Pathways is real."""
    while True:
        try:
            if len((found := _chips())["workers"]) >= workers:
                return found
        except (OSError, ValueError):  # the proxy is not there yet
            pass
        time.sleep(0.1)


def _chips() -> dict[str, Any]:
    name, _, port = os.environ["JAX_BACKEND_TARGET"].removeprefix("grpc://").rpartition(":")
    with socket.create_connection((name, int(port)), 5) as proxy:
        proxy.sendall(b"chips\n")
        return dict(json.loads(proxy.makefile("r").readline()))
