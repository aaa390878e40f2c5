"""Rows of several hosts as one array, on real JAX processes: whatever the mesh, and never of unequal shares."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from prefect_tpu.infra.plan import RestorePoint

pytestmark = pytest.mark.slices

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
        "by axis": [2, 2],
    }
    assert second["default"] == [*whole, True, [4, 6]] and second["turned"] == [*whole, True, [0, 2]]
    assert second["crossed"] == first["crossed"] and second["everywhere"] == first["everywhere"]


@pytest.mark.parametrize("at", [0, 2])
def test_unequal_shares_are_named_rather_than_waited_for(slice_: Slice, at: int) -> None:
    """At the first call all hosts compare; later the one whose rows are new says that it stands alone."""
    hosts = slice_.start(slice_.plan(2, 1), "rows_program.py:unequal", at=at)
    first, second = hosts.outcomes()
    assert second["error"] == "UsageError"
    if at == 0:
        assert "host 0: the array float32[4, 2]; host 1: the array float32[3, 2]. Give it equal" in second["message"]
        assert first == second
    else:
        assert "Host 1 hands rows to global_array() that are new: the array float32[3, 2]" in second["message"]
        assert "value" not in first


def test_a_batch_that_does_not_divide_by_the_devices_is_refused(slice_: Slice) -> None:
    (outcome,) = slice_.start(slice_.plan(1, 2), "rows_program.py:indivisible").outcomes()
    assert outcome["error"] == "UsageError"
    assert "has 3 rows (3 of each host), which do not divide by the 2 parts of data" in outcome["message"]


def test_a_run_goes_on_with_the_same_batches_on_another_number_of_hosts(slice_: Slice) -> None:
    (whole,) = slice_.start_outside("rows_program.py:train", steps=STEPS).values()
    hosts = slice_.start(slice_.plan(2, 1), "rows_program.py:train", steps=STEPS, pause=0.1)
    hosts.wait_for_step(10)
    hosts.processes[1].send_signal(signal.SIGTERM)
    step = hosts.outcomes()[0]["preempted"]
    restore = RestorePoint(attempt=1, step=step)
    for count, devices in ((2, 1), (1, 4)):
        values = slice_.start(
            slice_.plan(count, devices, restore=restore), "rows_program.py:train", steps=STEPS
        ).values()
        assert all(value == {"start": step + 1, "total": whole["total"]} for value in values)
