"""A sweep with everything filled in that a test does not care about, and the places where it may lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.storage import Storage, open_storage
from prefect_tpu.infra.sweep.asked import Asked

SPACE = {"lr": {"low": 1e-4, "high": 1e-1, "log": True}, "width": [64, 128]}


@pytest.fixture(scope="session")
def make_asked() -> Callable[..., Asked]:
    def make(**changes: Any) -> Asked:
        return Asked(**{"name": "digits", "program": "train.py:main", "space": SPACE, **changes})

    return make


@pytest.fixture(params=["disk", "bucket"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A sweep's folder, on a disk and in a bucket."""
    output = tmp_path / "jobs" if request.param == "disk" else request.getfixturevalue("bucket")
    return open_storage(str(output)).inside(".sweeps/digits")
