"""What the frameworks' tier needs: an environment that has PyTorch and its like, and hosts that run in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package: these modules are for this folder

from forked_hosts import ForkedSlice, Forks  # noqa: E402


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
