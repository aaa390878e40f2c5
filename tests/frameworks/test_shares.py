"""Shares of tensors, of data sets of PyTorch and Hugging Face, and of tables of pandas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan

pytestmark = pytest.mark.frameworks

PROGRAM = Path(__file__).with_name("share_program.py")


def found(python: Path, folder: Path, host: int, hosts: int) -> dict[str, Any]:
    """What the program says as host `host`; it needs no other one."""
    plan = HostPlan(
        job="shares",
        attempt=1,
        accelerator=f"cpu-{hosts}x1",
        output=str(folder / "out" / "shares"),
        hosts=hosts,
        devices_per_host=1,
        platform="cpu",
        coordinator="127.0.0.1:1",
        addresses=("127.0.0.1",) * hosts,
        program=Program(kind="module", target="m:f"),
        checkpoint_every=600.0,
        grace=30.0,
        orphan_after=60.0,
        join_timeout=60.0,
        python=sys.executable,
    )
    path = folder / f"plan-{host}.json"
    path.write_bytes(plan.to_json())
    told = {
        Env.PLAN: path,
        Env.HOST: host,
        Env.SCRATCH: folder,
        Env.RUNNER: os.getpid(),
        Env.STARTED: time.monotonic(),
    }
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **{name: str(value) for name, value in told.items()}}
    done = subprocess.run([python, PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_shares_of_what_frameworks_have(frameworks: Path, tmp_path: Path) -> None:
    mine = found(frameworks / "python", tmp_path, host=1, hosts=2)
    order = np.random.default_rng([3, 0]).permutation(10).tolist()
    assert mine["in order"] == [[[5, 6, 7, 8, 9]] * 4, [True] * 4]
    assert mine["shuffled"] == [[order[5:]] * 4, [True] * 4]
    assert mine["batch"] == [[order[4:8]] * 5, True]
    assert mine["position"] == 2 and mine["is a view"]
    stream, torch_stream, loader = mine["refused"]
    assert "split_dataset_by_node" in stream
    assert "prefect_tpu.info().host" in torch_stream and "the Dataset that it loads" in loader
