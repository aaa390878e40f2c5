"""What the frameworks' tier needs: an environment that has PyTorch and its like, and hosts that run in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package: these modules are for this folder

from forked_hosts import ForkedSlice, Forks  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def frameworks() -> Path:
    """The environment's folder of commands. A tier that cannot run is a failure."""
    found = Path(os.environ.get("PREFECT_TPU_FRAMEWORKS_VENV") or ROOT / ".venv-frameworks", "bin")
    assert (found / "prefect-tpu").exists(), f"{found} is not there: `make setup-frameworks` makes it."
    return found


@pytest.fixture(scope="session")
def forks(frameworks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """All torch programs of this tier are forked from one process, which imports what they use once."""
    made = Forks.of(frameworks / "python", "torch_programs", tmp_path_factory.mktemp("forks"))
    yield made
    made.end()


@pytest.fixture
def slice_(forks: Forks, tmp_path: Path) -> Iterator[ForkedSlice]:
    made = ForkedSlice(tmp_path, forks)
    yield made
    made.end()
