"""Which kind of device does JAX find on a TPU generation?

The names are those that JAX 0.10.2 itself tells TPUs apart by (`jax/_src/pallas/mosaic/tpu_info.py`, read 2026-11).
A name that is not among them is taken as it is: a later JAX may have more.
"""

from __future__ import annotations

from prefect_tpu.infra.accelerator_table import SPELLINGS
from prefect_tpu.infra.errors import WrongSlice

KINDS = {
    "TPU v2": "v2",
    "TPU v3": "v3",
    "TPU v4": "v4",
    "TPU v5 lite": "v5e",
    "TPU v5e": "v5e",
    "TPU v5": "v5p",
    "TPU v5p": "v5p",
    "TPU v6 lite": "v6e",
    "TPU v6e": "v6e",
    "TPU7x": "tpu7x",
}


def check(accelerator: str, kind: str) -> None:
    """Raise `WrongSlice` where devices of this kind are of another generation than the accelerator."""
    asked, found = _generation(accelerator), KINDS.get(kind)
    if found is not None and asked in KINDS.values() and found != asked:
        raise WrongSlice(
            f"The slice is not the {accelerator} of the plan: its devices are {kind!r}, which is {found}, not {asked}."
            " Check the accelerator's name and which machines the job's pods run on."
        )


def _generation(accelerator: str) -> str:
    """Of `tpu-v5litepod-16:spot`: `v5e`. Numbers and topologies do not matter, so that any dialect is understood."""
    name = accelerator.strip().lower().removeprefix("tpu-").removeprefix("tpu:")
    head = name.partition(":")[0].partition("@")[0].partition("-")[0]
    return SPELLINGS.get(head, head)
