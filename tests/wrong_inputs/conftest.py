"""A folder to call from, the shell command in this process, and what a wrong call must look like."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package; `places` is for this folder

from places import PROGRAMS, lay_out  # noqa: E402

from prefect_tpu.flows.cli import main  # noqa: E402


@dataclass(frozen=True)
class Answer:
    """What a call of the shell command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str


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
def shell(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """`prefect-tpu WORDS…` in this process."""

    def call(*words: str | os.PathLike[str]) -> Answer:
        monkeypatch.setattr(sys, "argv", ["prefect-tpu", *map(os.fspath, words)])
        monkeypatch.setattr(sys, "stderr", sys.stderr)  # the command replaces it for good
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return Answer(code=_code(left.value.code), out=out, err=err)

    return call


def _code(code: Any) -> int:
    return code if isinstance(code, int) else int(code is not None)
