"""What a host asks for of its machine leaves room for the system."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.accelerator_table import GENERATIONS
from prefect_tpu.infra.gcp.machine_resources import room

UNKNOWN = "tpu7x-ultranet-4t"  # Google says nothing of its memory
MACHINES = {machine.name for kind in GENERATIONS.values() for machine in kind.machines if machine.name} - {UNKNOWN}


def kept_for_the_system(memory_gib: float) -> float:
    """GiB that GKE keeps, by its documented steps, and 100 MiB before it evicts."""
    steps = ((4.0, 0.25), (4.0, 0.20), (8.0, 0.10), (112.0, 0.06), (float("inf"), 0.02))
    kept, left = 0.1, memory_gib
    for size, share in steps:
        kept, left = kept + min(size, left) * share, max(0.0, left - size)
    return kept


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_every_machine_with_chips_is_known_and_keeps_room(machine: str) -> None:
    asked = int(room(machine)["memory"].removesuffix("G")) * 1e9 / 2**30
    whole = asked / 0.8
    assert asked < whole - kept_for_the_system(whole) - 1  # one more GiB for what GKE runs on each node
    assert int(room(machine)["cpu"]) > 0


def test_of_others_nothing_is_asked() -> None:
    assert room("a3-highgpu-8g") == room(UNKNOWN) == room(None) == {}
