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


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("neither", "it is JAX or PyTorch that records, and this program uses neither"),
        ("torch_xla", "it is torch_xla that computes: use torch_xla.debug.profiler"),
    ],
)
def test_a_program_that_nobody_can_record_is_told_and_goes_on(module: str, why: str, tmp_path: Path) -> None:
    package = tmp_path / "packages" / f"{module}.py"  # as much of it as is asked: that it is imported
    package.parent.mkdir()
    package.touch()
    code = f"import sys; sys.path.append('packages'); import prefect_tpu, {module}\n"
    code += "for step in range(4): prefect_tpu.report(step)\nprint('trained')"
    environment = {"PREFECT_TPU_PROFILE": "skip=1,steps=1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "trained\n" and list(tmp_path.iterdir()) == [package.parent]
    assert done.stderr == f"prefect-tpu: no profile is recorded on this host: {why}\n"
