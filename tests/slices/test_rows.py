"""Rows of several hosts as one array, on real JAX processes: whatever the mesh, and never of unequal shares."""

from __future__ import annotations

import signal
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.training.batches import batches

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

sys.path.append(str(Path(__file__).parent))  # tests are no package; the hosts are for this folder

from bare_hosts import Slice  # noqa: E402
from bare_hosts import slice_ as slice_  # noqa: E402  # a fixture, by its being here

STEPS = 40


def test_rows_stay_in_order_whatever_the_mesh(slice_: Slice) -> None:
    first, second = slice_.start(slice_.plan(2, 2), "rows_program.py:layouts").values()
    whole = [[8, 8], [8]]
    assert first == {
        "default": [*whole, True, [0, 2]],
        "mesh": [*whole, True, [0, 2]],
        "crossed": [*whole, True, [0, 4]],  # each host has both halves of the rows: they were sent between hosts
        "everywhere": [*whole, True, [0]],
        "turned": [*whole, True, [4, 6]],
        "as JAX itself": [True] * 3,
        "by axis": [2, 2],
        "indivisible": "the array of global_array() has 6 rows (3 of each host), which do not divide by the 4 parts of"
        " data: make it 4 or 8.",
    }
    assert second["default"] == [*whole, True, [4, 6]] and second["turned"] == [*whole, True, [0, 2]]
    assert second["crossed"] == first["crossed"] and second["everywhere"] == first["everywhere"]


def test_unequal_shares_are_named_rather_than_waited_for(slice_: Slice) -> None:
    """At the first call all hosts compare; later the one whose rows are new says that it stands alone."""
    first, second = slice_.start(slice_.plan(2, 1), "rows_program.py:unequal", at=3).outcomes()
    first_told, _, later = second["message"].partition(" later: ")
    assert "host 0: the array float32[4, 2]; host 1: the array float32[3, 2]. Give it equal" in first_told
    assert "Host 1 hands rows to global_array() that are new: the array float32[3, 2]. Host 0 has" in later
    assert "error" in first, "it waited in its step for the other one, which has left"


def test_a_run_goes_on_with_the_same_batches_on_another_number_of_hosts(slice_: Slice) -> None:
    hosts = slice_.start(slice_.plan(2, 1), "rows_program.py:train", steps=STEPS, pause=0.1)
    hosts.wait_for_step(10)
    hosts.processes[1].send_signal(signal.SIGTERM)
    step = hosts.outcomes()[0]["preempted"]
    restore = RestorePoint(attempt=1, step=step)
    (value,) = slice_.start(slice_.plan(1, 4, restore=restore), "rows_program.py:train", steps=STEPS).values()
    assert value == {"start": step + 1, "total": alone()}


def alone() -> float:
    """What one process makes of the same batches, without JAX."""
    rows = np.arange(64)
    total, weights = 0, np.arange(12) + 1
    for x in islice(batches(rows, size=12, seed=7), STEPS):
        total = (total * 3 + (x * weights).sum() + (x**2 * weights).sum()) % 65521
    return float(total)
