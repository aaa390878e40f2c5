"""A folder to call from, with programs and data in it, and the shell command there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package; `places` is for this folder

from places import PROGRAMS, lay_out  # noqa: E402


@dataclass(frozen=True)
class Place:
    """The folder that calls are made from, with programs and data in it; jobs go to `output`."""

    folder: Path

    @property
    def output(self) -> Path:
        return self.folder / "jobs"

    def seen(self) -> set[str]:
        """Every file and folder of it, with the user's own data folder."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A folder with the programs of `places`, which is the working folder, and settings that lead into it."""
    lay_out(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_TPU_OUTPUT", str(tmp_path / "jobs"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data-home"))
    yield Place(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] in PROGRAMS]:
        del sys.modules[name]


@pytest.fixture
def shell(place: Place, prefect_tpu: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a command line from that folder."""
    return prefect_tpu
