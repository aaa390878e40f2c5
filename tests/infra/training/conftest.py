"""A host's surroundings as its runner leaves them, without a runner."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan


@pytest.fixture
def inside_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., HostPlan]:
    """Make this process host `host` of a job."""

    def enter(host: int = 0, hosts: int = 1, **changes: Any) -> HostPlan:
        values: dict[str, Any] = {
            "job": "digits",
            "attempt": 3,
            "accelerator": f"cpu-{hosts}x1",
            "output": str(tmp_path / "out" / "digits"),
            "hosts": hosts,
            "devices_per_host": 1,
            "platform": "cpu",
            "coordinator": "127.0.0.1:1",
            "addresses": ("127.0.0.1",) * hosts,
            "program": Program(kind="module", target="m:f"),
            "checkpoint_every": 600.0,
            "grace": 30.0,
            "orphan_after": 60.0,
            "join_timeout": 60.0,
            "python": sys.executable,
        }
        plan = HostPlan(**{**values, **changes})
        path = tmp_path / f"plan-{host}.json"
        path.write_bytes(plan.to_json())
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        for name, value in {
            Env.PLAN: path,
            Env.HOST: host,
            Env.SCRATCH: scratch,
            Env.RUNNER: os.getpid(),
            Env.STARTED: time.monotonic(),
        }.items():
            monkeypatch.setenv(name, str(value))
        return plan

    return enter
