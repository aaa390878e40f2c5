"""Jobs, plans and records with everything filled in that a test does not care about."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.job import Program, SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture(scope="session")
def make_job() -> Callable[..., SliceJob]:
    def make(**changes: Any) -> SliceJob:
        values = {"name": "digits", "program": Program(kind="module", target="m:f"), "accelerators": ("v6e-16",)}
        return SliceJob(**{**values, **changes})

    return make


@pytest.fixture(scope="session")
def make_plan() -> Callable[..., HostPlan]:
    def make(hosts: int = 4, **changes: Any) -> HostPlan:
        values: dict[str, Any] = {
            "job": "digits",
            "attempt": 3,
            "accelerator": "v6e-16",
            "output": "/out/digits",
            "hosts": hosts,
            "devices_per_host": 4,
            "platform": "cpu",
            "coordinator": "127.0.0.1:20123",
            "addresses": ("127.0.0.1",) * hosts,
            "program": Program(kind="module", target="m:f"),
            "checkpoint_every": 600.0,
            "grace": 30.0,
            "orphan_after": 60.0,
            "join_timeout": 120.0,
            "python": sys.executable,
        }
        return HostPlan(**{**values, **changes})

    return make


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "out" / "digits")
