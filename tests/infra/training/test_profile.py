"""Who asks for a profile. How one is recorded is tried where JAX may be loaded: in tests/slices."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training.profile import Recorder, recorder
from prefect_tpu.infra.windows import Window


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


def _said_at_its_end(code: str, folder: Path) -> str:
    """What a program is told for whose window nothing comes; it trains to its end, and writes nothing."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={"PREFECT_TPU_PROFILE": "skip=5"}, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "trained\n" and list(folder.iterdir()) == []
    return done.stderr


def test_a_window_that_never_begins_says_so(tmp_path: Path) -> None:
    """And the program goes on."""
    code = "import prefect_tpu\nfor step in range(4): prefect_tpu.report(step)\nprint('trained')"
    assert _said_at_its_end(code, tmp_path) == (
        "prefect-tpu: no profile is recorded on this host: its program ended with report 4, and skip=5,steps=5 records"
        " what follows report 5: use a smaller skip.\n"
    )


def test_a_program_that_reports_nothing_is_told(tmp_path: Path) -> None:
    """Once, however often it joins; one that ends well before its window has another reason."""
    code = "import prefect_tpu\nfor _ in range(2): prefect_tpu.join()\nprint('trained')"
    assert _said_at_its_end(code, tmp_path) == (
        "prefect-tpu: no profile is recorded on this host: its program reported no step: call prefect_tpu.report(step)"
        " after each.\n"
    )


def test_what_the_chips_raise_is_the_program_s(tmp_path: Path) -> None:
    """A lost host is no trouble of the profile's, though it is found while a window begins."""

    def lost() -> None:
        raise RuntimeError("connection reset by peer")

    with pytest.raises(RuntimeError, match="reset by peer"):
        Recorder(Window(skip=1, steps=1), str(tmp_path), "run", nobody, None).reported(0, lost)


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
