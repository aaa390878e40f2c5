"""A JAX program whose numbers tell exactly which steps were done: each is saved, and it fails until it is mended."""

from __future__ import annotations

import hashlib
import resource
from typing import Any

import jax
import numpy as np

import prefect_tpu as tpu

SIZE = 20_000
ROOM_BYTES = 16_384  # less than the numbers take
MENDED = "mended"  # in the job's folder: from then on nothing fails


def main(steps: int, fail_at: int | None = None, full_at: int | None = None) -> dict[str, Any]:
    """Where it began, and the digest of its numbers after `steps` steps; from step `full_at` its disk is full."""
    tpu.join()
    state = {"numbers": jax.device_put(first())}
    with tpu.checkpoints(every=1e-6) as checkpoints:
        state, start = checkpoints.restore(state)
        for step in range(start, steps):
            is_mended = (tpu.info().output / MENDED).exists()
            if step == full_at and not is_mended:
                resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))
            if step == fail_at and not is_mended:
                raise ValueError(f"step {step} was asked to fail")
            state = {"numbers": state["numbers"] * 3 + step}
            tpu.report(step)
            checkpoints.save(step, state)
    return {"start": start, "digest": digest(np.asarray(state["numbers"]))}


def first() -> np.ndarray[Any, Any]:
    return np.random.default_rng(4).integers(0, 2**32, SIZE, dtype=np.uint32)


def expected(steps: int) -> str:
    """The digest of a run that nothing came between."""
    numbers = first()
    for step in range(steps):
        numbers = numbers * np.uint32(3) + np.uint32(step)
    return digest(numbers)


def digest(numbers: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(numbers.tobytes()).hexdigest()
