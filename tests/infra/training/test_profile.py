"""Who asks for a profile. How one is recorded is tried where JAX may be loaded: in tests/slices."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.profile import recorder


def nobody(*_: Any, **__: Any) -> None:
    """Hears what is recorded."""


def test_the_environment_asks_where_the_job_does_not(
    inside_job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside_job()
    assert recorder(nobody) is None
    monkeypatch.setenv("PREFECT_TPU_PROFILE", "skip=2,steps=1")
    assert recorder(nobody) is not None
    monkeypatch.setenv("PREFECT_TPU_PROFILE", "yes")
    with pytest.raises(UsageError, match="Profile 'yes' names no steps"):
        recorder(nobody)


def test_the_job_asks(inside_job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    inside_job(profile="skip=3,steps=2")
    monkeypatch.setenv("PREFECT_TPU_PROFILE", "yes")
    assert recorder(nobody) is not None


def test_a_program_without_jax_is_told_of_torch_s_own(tmp_path: Path) -> None:
    """And goes on."""
    code = "import prefect_tpu\nfor step in range(4): prefect_tpu.report(step)\nprint('trained')"
    environment = {"PREFECT_TPU_PROFILE": "skip=1,steps=1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "trained\n" and list(tmp_path.iterdir()) == []
    assert done.stderr.startswith("prefect-tpu: no profile is recorded on this host: it is JAX that records")
    assert done.stderr.endswith("PyTorch has torch.profiler\n")
