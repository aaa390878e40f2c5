"""A window of steps is recorded by JAX itself, and lies where xprof looks for it, on a disk and in a bucket."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slices, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("recorded_program.py")
NAME = "profile/plugins/profile/attempt-3/host-0.xplane.pb"


def test_windows_are_recorded_and_kept(tmp_path: Path, bucket: str) -> None:
    place = f"{bucket}/jobs/digits"
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, place], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    whole, early, stored = found["heard"]
    assert whole == {"first": 3, "last": 4, "name": NAME} and found["whole"] == 2
    assert (early["first"], early["last"], found["early"]) == (1, 3, 4), "three steps, and the one that had begun"
    assert stored["name"] == NAME and found["bucket"] == [NAME]
    assert f"prefect-tpu: steps 3 to 4 are recorded: xprof --logdir {tmp_path}/whole/profile" in found["said"]
    assert f"prefect-tpu: steps 1 to 1 are recorded: xprof --logdir {place}/profile" in found["said"]
    hindered, late, full = found["said"][-3:]
    assert "no profile is recorded on this host: Profile has already" in hindered, "and the training goes on"
    assert "no profile is recorded on this host: " in full and not (tmp_path / "full").exists()
    assert "ended with report 1, and skip=1,steps=2 records what follows report 1: use a smaller" in late
    assert found["hindered"]
