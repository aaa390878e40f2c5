"""What takes minutes says what it is at."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_setting_up_names_its_stages(tmp_path: Path) -> None:
    words = ("make", "--dry-run", "setup", f"VENV={tmp_path / 'venv'}")
    recipe = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    expected = (
        "1 of 3  environment",
        " -m venv ",
        "2 of 3  packages",
        "install-packages",
        "3 of 3  check",
        "tpu version",
    )
    places = [recipe.find(part) for part in expected]
    assert -1 not in places and places == sorted(places), recipe


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The least wheel that there is."""
    place = tmp_path / "nothing-1.0-py3-none-any.whl"
    of = "nothing-1.0.dist-info"
    with zipfile.ZipFile(place, "w") as wheel:
        wheel.writestr(f"{of}/METADATA", "Metadata-Version: 2.1\nName: nothing\nVersion: 1.0\n")
        wheel.writestr(
            f"{of}/WHEEL", "Wheel-Version: 1.0\nGenerator: by-hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{of}/RECORD", f"{of}/METADATA,,\n{of}/WHEEL,,\n{of}/RECORD,,\n")
    return place


def install(package: str | Path, place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / ".ci/install-packages", sys.executable, "--no-index", "--target", place, package]
    clean = {name: value for name, value in os.environ.items() if name != "CI"}
    return subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, timeout=120)


def test_who_installs_says_what_it_is_at_but_where_nobody_waits(package: Path, tmp_path: Path) -> None:
    told, short = install(package, tmp_path / "told"), install(package, tmp_path / "short", CI="true")
    assert (told.returncode, short.returncode) == (0, 0), told.stderr + short.stderr
    assert told.stdout == "          Installing packages\n" and short.stdout == ""


@pytest.mark.parametrize("ci", [{}, {"CI": "true"}])
def test_what_cannot_be_installed_is_said_and_ends_it(tmp_path: Path, ci: dict[str, str]) -> None:
    ended = install("nothing-of-that-name", tmp_path, **ci)
    assert ended.returncode != 0 and "nothing-of-that-name" in ended.stderr
