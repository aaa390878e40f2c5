"""How is a slice called in the compiler's words, and which ones does it not know as they are?"""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.compiler.figures import FIGURES
from prefect_tpu.infra.errors import UsageError

# A host's chips by their number, as libtpu wants them: how they lie.
_HOST_BOUNDS = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
_OTHERWISE = {
    "v2": "the compiler of today has no figures for TPUs that old",
    "v3": "the compiler of today has no figures for TPUs that old",
    "v4": "without a TPU the compiler takes each of its TensorCores for a device of its own, and on a real v4 both of"
    " a chip are one (megacore), so every figure would be another",
    "tpu7": "the compiler does not know it yet; tpu7x it does",
}


def check_known(found: Slice) -> None:
    """Raise `UsageError` where Google's compiler cannot be asked about such a slice."""
    if found.platform != "tpu":
        raise UsageError(f"{found.name} has no TPU, and Google's compiler is for those: name one of {_known()}.")
    if found.generation not in FIGURES:
        why = _OTHERWISE.get(found.generation, "nobody has tried it")
        raise UsageError(f"{found.name} cannot be checked before it is there: {why}. Name one of {_known()}.")


def topology_words(found: Slice, slices: int) -> dict[str, Any]:
    """What `jax.experimental.topologies.get_topology_desc` takes for it."""
    return {
        "platform": "tpu",
        "topology_name": f"{found.generation}:{found.topology}",
        "chips_per_host_bounds": list(_HOST_BOUNDS[found.chips_per_host]),
        "num_slices": slices,
    }


def _known() -> str:
    return ", ".join(FIGURES)
