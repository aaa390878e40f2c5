"""When the control plane is built, by whom, and what is said where it cannot be."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest
from control_plane import build

SCRIPT = build.HERE / "build.py"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this tree's control plane would lie; no machine's own is touched."""
    monkeypatch.setenv(build.CACHE_VARIABLE, str(tmp_path))
    return build.place()


@pytest.fixture
def without_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


@pytest.mark.usefixtures("without_go")
def test_without_go_the_message_says_which_is_needed(place: Path) -> None:
    with pytest.raises(build.CannotBuild, match=r"no `go` on the path\. Install Go 1\.26 or newer"):
        build.build()
    assert not place.exists()


@pytest.mark.usefixtures("without_go")
def test_what_is_complete_is_not_built_again(place: Path) -> None:
    place.mkdir()
    (place / build.COMPLETE).touch()
    assert build.build() == build.ready() == place


def test_what_has_no_marker_does_not_count(place: Path) -> None:
    (place / "bin").mkdir(parents=True)
    with pytest.raises(build.CannotBuild, match="make control-plane"):
        build.ready()


def test_the_command_ends_with_an_error_and_says_why(place: Path) -> None:
    environment = {build.CACHE_VARIABLE: str(place.parent), "PATH": "/nowhere"}
    done = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("control plane: The control plane is built from Go modules")
    told = subprocess.run([sys.executable, SCRIPT, "--where"], env=environment, capture_output=True, text=True)
    assert told.stdout == f"{place}\n"


def test_who_comes_second_waits_and_finds_it(place: Path) -> None:
    environment = {build.CACHE_VARIABLE: str(place.parent), "PATH": "/nowhere"}
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen([sys.executable, SCRIPT], env=environment, stderr=subprocess.PIPE, text=True)
        place.mkdir()
        (place / build.COMPLETE).touch()
    _, said = second.communicate(timeout=60)
    assert (second.returncode, said) == (0, f"control plane: complete in {place}\n")


def test_other_pins_lie_elsewhere(tmp_path: Path) -> None:
    copy = tmp_path / "control_plane"
    for path in (SCRIPT, *build.HERE.glob("go/*/go.*")):
        target = copy / path.relative_to(build.HERE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())

    def where() -> str:
        words, environment = [sys.executable, str(copy / "build.py"), "--where"], {build.CACHE_VARIABLE: "/nowhere"}
        return str(subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout)

    before = where()
    with (copy / "go/kueue/go.sum").open("a") as sums:
        sums.write("another line\n")
    assert where() != before
