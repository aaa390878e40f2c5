"""The checkers check: an error put into a copy of the tree is found by the commands of `make check`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = (".ci", "flows", "tasks", "blocks", "infra", "pyproject.toml", ".importlinter")
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.house_slow


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """A copy of the code and of the checkers' settings."""
    for name in TREE:
        source = repository / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run one checker on the copy, as the Makefile runs it."""
    subprocess.run([tree / ".ci/link-tree", ".check"], cwd=tree, check=True, timeout=60)
    links = str(tree / ".check")
    environment = {**os.environ, "MYPYPATH": links, "PYTHONPATH": links}
    return subprocess.run(
        [BIN / command[0], *command[1:]], cwd=tree, env=environment, capture_output=True, text=True, timeout=280
    )


def add(tree: Path, name: str, line: str) -> None:
    path = tree / name
    path.write_text(f"{path.read_text()}\n\n{line}\n")


def test_mypy_finds_seeded_type_errors_on_every_floor(tree: Path, repository: Path) -> None:
    if (repository / ".mypy_cache").exists():  # spares mypy a second look at Prefect and JAX
        shutil.copytree(repository / ".mypy_cache", tree / ".mypy_cache")
    floors = ["flows", "tasks", "blocks", "infra", "infra/host", "infra/training", "infra/prefect_tpu"]
    for floor in floors:
        add(tree, f"{floor}/__init__.py", "seeded: int = 'not a number'")
    done = run(tree, "mypy", "-p", "prefect_tpu")
    wanted = 'expression has type "str", variable has type "int"'
    found = {line.partition(":")[0] for line in done.stdout.splitlines() if wanted in line}
    installed = {str(Path(".check/prefect_tpu") / floor.removeprefix("infra/prefect_tpu")) for floor in floors}
    assert found == {f"{folder}/__init__.py" for folder in installed}
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("name", "line", "contract"),
    [
        ("infra/job.py", "import prefect_tpu.flows", "Four floors"),
        ("infra/errors.py", "import prefect_tpu.infra.job", "Inside infra"),
        ("infra/policy/__init__.py", "import prefect", "The core does not know Prefect"),
        ("infra/host/__init__.py", "import prefect_tpu.infra.launcher", "What runs on the slice"),
        ("infra/host/__init__.py", "import jax", "The host runner starts without JAX"),
        ("infra/host/__init__.py", "import prefect_tpu.infra.training", "do not know each other"),
        ("infra/storage.py", "import numpy", "The words need the standard library only"),
        ("infra/backends/__init__.py", "import prefect_tpu", "Nobody inside imports the public face"),
    ],
)
def test_import_linter_finds_a_seeded_import(tree: Path, name: str, line: str, contract: str) -> None:
    add(tree, name, line)
    done = run(tree, "lint-imports")
    assert done.returncode == 1
    broken = [told for told in done.stdout.splitlines() if told.endswith("BROKEN")]
    assert any(contract in told for told in broken), done.stdout


def test_import_linter_finds_a_module_without_a_floor(tree: Path) -> None:
    (tree / "infra/unplaced.py").write_text('"""A module that no contract names."""\n')
    done = run(tree, "lint-imports")
    assert done.returncode == 1
    assert "unplaced" in done.stdout + done.stderr


def test_ruff_refuses_a_second_copy_of_a_module(tree: Path) -> None:
    add(tree, "infra/job.py", "import flows")
    done = run(tree, "ruff", "check", "infra/job.py")
    assert done.returncode == 1
    assert "TID251" in done.stdout
