"""The compiler is fetched once, whoever asks and whatever comes in between. Its index is a server of this test's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil
import pytest
from compile_command import SECONDS

from prefect_tpu.infra.compiler.environment import find_compiler, own_folder
from prefect_tpu.infra.compiler.fetching import READY
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError

pytestmark = [pytest.mark.compiler, pytest.mark.timeout(600)]

JAX = metadata.version("jax")
FIND = """
import sys
from prefect_tpu.infra.compiler.environment import find_compiler
print(find_compiler(lambda line: print(line, file=sys.stderr, flush=True)).library)
"""


class Index:
    """Wheels by HTTP, once it is open; until then whoever asks waits."""

    def __init__(self, folder: Path) -> None:
        self.is_open = threading.Event()
        index = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(folder))

            def do_GET(self) -> None:
                if index.is_open.wait(SECONDS):
                    super().do_GET()

            def log_message(self, *args: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def close(self) -> None:
        self.is_open.set()
        self.server.shutdown()
        self.server.server_close()


def wheel(folder: Path, name: str, version: str, files: dict[str, str], needs: str = "") -> None:
    info = f"{name}-{version}.dist-info"
    said = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in said.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*said, f"{info}/RECORD")))


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """The only one that pip knows; the cache folder is this test's too."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "libtpu", "0.0.42", {"libtpu/__init__.py": "", "libtpu/libtpu.so": ""})
    needs = "Provides-Extra: tpu\nRequires-Dist: libtpu ; extra == 'tpu'\n"
    wheel(wheels, "jax", JAX, {"jax/__init__.py": ""}, needs)
    served = Index(wheels)
    monkeypatch.delenv(Env.COMPILER_PYTHON, raising=False)
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", served.url), ("XDG_CACHE_HOME", str(tmp_path))):
        monkeypatch.setenv(name, value)
    yield served
    served.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return own_folder(JAX, {"XDG_CACHE_HOME": str(tmp_path)})


@contextlib.contextmanager
def asking() -> Iterator[subprocess.Popen[str]]:
    """Another process that wants the compiler."""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", FIND], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_two_at_once_fetch_it_once(index: Index, folder: Path) -> None:
    with asking() as first:
        assert "is fetched into" in line_of(first)
        with asking() as second:
            assert "Another process fetches" in line_of(second)
            index.is_open.set()
            ended = [process.communicate(timeout=SECONDS) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], ended
    assert [out.startswith(str(folder)) for out, _ in ended] == [True, True]
    assert [err for _, err in ended] == ["", ""], "nobody fetches it again"


def test_who_waits_gives_up_and_the_fetching_of_a_killed_process_is_waited_for_too(index: Index, folder: Path) -> None:
    said: list[str] = []
    with asking() as first:
        assert "is fetched into" in line_of(first)
        installer = pip_of(psutil.Process(first.pid))
        with pytest.raises(PlatformError, match=f"Another process has been making .* {folder} for more than 0 s"):
            find_compiler(said.append, patience=0.4)
        first.kill()
        first.wait(60)
        with pytest.raises(PlatformError, match="Another process has been making"):
            find_compiler(said.append, patience=0.4)
        installer.kill()
    assert [line.partition(" TPU")[0] for line in said] == ["Another process fetches Google's"] * 2


def pip_of(process: psutil.Process) -> psutil.Process:
    """Its installer, once it is there."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        for one in process.children():
            with contextlib.suppress(psutil.Error):  # the command before it has just ended
                if "pip" in one.cmdline():
                    return one
        time.sleep(0.05)
    raise AssertionError("no pip was started")


def test_a_fetching_without_end_is_ended(index: Index, folder: Path) -> None:
    with pytest.raises(PlatformError, match=f"{folder} cannot be made: .* took more than 20 s and was ended"):
        find_compiler(lambda line: None, patience=20.0)
    assert not folder.exists()


def _a_file(folder: Path) -> list[str]:
    folder.parent.mkdir(parents=True)
    folder.touch()
    return []


def _a_full_disk(folder: Path) -> list[str]:
    """No file may have a byte: what a disk says that has none left."""
    return ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash"]


def _a_lock_that_is_a_folder(folder: Path) -> list[str]:
    folder.with_name(f"{folder.name}.lock").mkdir(parents=True)
    return []


@pytest.mark.parametrize("wrong", [_a_file, _a_full_disk, _a_lock_that_is_a_folder])
def test_a_folder_that_cannot_hold_it_is_told(
    index: Index, folder: Path, tmp_path: Path, wrong: Callable[[Path], list[str]]
) -> None:
    (tmp_path / "model.py").write_text("def main(): ...\n")
    before = wrong(folder)
    tool = str(Path(sys.executable).with_name("prefect-tpu"))
    done = subprocess.run(
        [*before, tool, "compile", "model.py:main", "-a", "v6e-1"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert "The compiler's" in done.stderr and str(folder.parent) in done.stderr
    assert Env.COMPILER_PYTHON in done.stderr
    assert not (folder / READY).exists()
