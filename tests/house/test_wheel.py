"""The wheel holds exactly the tree: a folder missing from `packages` is found here, not by a user."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CODE = ("flows", "tasks", "blocks", "infra")
KINDS = (".py", ".typed", ".json")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to build from: setuptools leaves a build folder beside its sources."""
    root = Path(__file__).resolve().parents[2]
    copy = tmp_path_factory.mktemp("copy")
    for folder in CODE:
        shutil.copytree(root / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", build, str(tree / "dist")], cwd=tree, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return next((tree / "dist").glob("*.whl"))


def installed_name(path: Path) -> str:
    """`infra/job.py` installs as `prefect_tpu/infra/job.py`, the face as `prefect_tpu/__init__.py`."""
    inside = path.relative_to("infra/prefect_tpu") if path.is_relative_to("infra/prefect_tpu") else path
    return f"prefect_tpu/{inside.as_posix()}"


def names_in_tree(root: Path) -> set[str]:
    files = (path for folder in CODE for path in (root / folder).rglob("*") if path.suffix in KINDS)
    return {installed_name(path.relative_to(root)) for path in files}


def test_wheel_content_equals_the_tree(wheel: Path, tree: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == names_in_tree(tree)


def test_wheel_carries_licence_and_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        metadata = {name.partition(".dist-info/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        assert "licenses/LICENSE" in metadata
        assert "prefect-tpu = prefect_tpu.flows.cli:main" in archive.read(metadata["entry_points.txt"]).decode()
        assert "License-Expression: Apache-2.0" in archive.read(metadata["METADATA"]).decode()
