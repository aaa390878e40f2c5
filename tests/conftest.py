"""What every test starts from: an empty home, no Prefect server, JAX on the CPU, no deadline per example."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

sys.path.append(str(Path(__file__).parent / "fakes"))  # tests are no package; servers at the network's edge are for all

from gcs import bucket as bucket  # noqa: E402  # fixtures, by their being here
from gcs import gcs as gcs  # noqa: E402
from quota_fixtures import google_quotas as google_quotas  # noqa: E402
from quota_fixtures import google_usage as google_usage  # noqa: E402

# A busy machine is not a defect; what continuous integration tries must be the same every time.
hypothesis.settings.register_profile(
    "house", deadline=None, max_examples=50 if "CI" in os.environ else 30, derandomize="CI" in os.environ
)
hypothesis.settings.load_profile("house")


class OwnScheduling(LoadFileScheduling):
    """Tests of one file go to one process, as they share what is dear. Pages share nothing, and some take minutes; the
    drills of both files are many processes at a time, and are told to stand still by a clock.
    """

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/docs/test_pages_"):
            return nodeid
        return "tests/drills" if nodeid.startswith("tests/drills/") else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OwnScheduling:
    return OwnScheduling(config, log)


# Before any import of Prefect or JAX: both read their settings while they are imported.
_HOME = Path(tempfile.mkdtemp(prefix="prefect-tpu-test-"))

_KEPT_FOR_TESTS = (
    "PREFECT_TPU_COMPILER_PYTHON",
    "PREFECT_TPU_CONTROL_PLANE_CACHE",
    "PREFECT_TPU_POD_VENV",
    "PREFECT_TPU_FLOW_VENV",
    "PREFECT_TPU_NEIGHBOUR_VENV",
    "PREFECT_TPU_FRAMEWORKS_VENV",
)
for _name in [name for name in os.environ if name.startswith("PREFECT_") and name not in _KEPT_FOR_TESTS]:
    del os.environ[_name]

# What is built once for a machine is found where `make control-plane` puts it, not in the empty home.
_CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
os.environ.setdefault("PREFECT_TPU_CONTROL_PLANE_CACHE", f"{_CACHE}/prefect-tpu/control-plane")

os.environ.update(
    HOME=str(_HOME),
    XDG_CACHE_HOME=str(_HOME / "cache"),
    XDG_CONFIG_HOME=str(_HOME / "config"),
    XDG_DATA_HOME=str(_HOME / "data"),
    PREFECT_HOME=str(_HOME / "prefect"),
    PREFECT_LOGGING_LEVEL="WARNING",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    DO_NOT_TRACK="1",
    JAX_PLATFORMS="cpu",
    PYTHONSAFEPATH="1",
)
os.environ.pop("XLA_FLAGS", None)


# Whoever runs the tests in the background may have them ignore what a terminal sends; whatever they start must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("leaves_connections") is not None:
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """What a test marked `leaves_connections` leaves is collected before another test is blamed for it."""
    if item.get_closest_marker("leaves_connections") is None:
        return (yield)
    done = yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return done


def pytest_configure(config: pytest.Config) -> None:
    # Matplotlib lists the machine's fonts once per home, which takes seconds; keep that list between runs.
    cache = getattr(config, "cache", None)  # absent under `-p no:cacheprovider`
    if cache is not None:
        os.environ["MPLCONFIGDIR"] = str(cache.mkdir("matplotlib"))


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture
def repository() -> Path:
    """The root of the clone."""
    return Path(__file__).resolve().parent.parent


class Process:
    """A process that a test started, in a session of its own; what it writes lies in files, so it never blocks."""

    def __init__(self, command: list[str], place: Path, environment: dict[str, str]) -> None:
        self._out, self._err = place.with_suffix(".out"), place.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.popen = subprocess.Popen(
                command,
                env=environment,
                cwd=place.parent,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code, negative for a signal."""
        return self.popen.wait(seconds)

    def result(self) -> dict[str, Any]:
        """The last line of its standard output, once it has ended."""
        self.wait()
        assert self.out, self.err
        return json.loads(self.out.splitlines()[-1])  # type: ignore[no-any-return]

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)  # JAX ignores SIGTERM
        self.popen.wait()


class Machine:
    """A machine of its own as far as prefect-tpu can see, and the processes that a test starts on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, folder / "jobs"
        self.environment = {
            **os.environ,
            "XDG_DATA_HOME": str(folder / "data"),
            "PREFECT_TPU_OUTPUT": str(self.output),
        }
        self._started: list[Process] = []
        folder.mkdir(exist_ok=True)

    def start(self, *command: str | Path, **environment: str) -> Process:
        place = self.folder / f"process-{len(self._started)}"
        self._started.append(Process([*map(str, command)], place, {**self.environment, **environment}))
        return self._started[-1]

    def prefect_tpu(self, *arguments: str | Path, **environment: str) -> Process:
        """The shell command, as it is installed."""
        return self.start(Path(sys.executable).with_name("prefect-tpu"), *arguments, **environment)

    def left(self) -> list[psutil.Process]:
        """Processes of any attempt on this machine: they carry its mark in their environment."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            is_gone = process.status() == psutil.STATUS_ZOMBIE
            return not is_gone and process.environ().get("PREFECT_TPU_ATTEMPT", "").startswith(str(self.folder))
        except (psutil.Error, OSError):
            return False

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
        while left := self.left():
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):  # it ended since the look
                    process.kill()
            psutil.wait_procs(left, timeout=1)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command of the shell ended and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def prefect_tpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """Runs `prefect-tpu WORDS…` in this process."""
    from prefect_tpu.flows.cli import main

    def run(*words: str | os.PathLike[str]) -> Ended:
        capsys.readouterr()
        with monkeypatch.context() as streams, pytest.raises(SystemExit) as left:
            for name in ("stdout", "stderr"):
                streams.setattr(sys, name, getattr(sys, name))  # the command wraps them for good
            main([os.fspath(word) for word in words])
        written = capsys.readouterr()
        return Ended(int(left.value.code or 0), written.out, written.err)

    return run


@pytest.fixture(scope="session")
def frameworks() -> Path:
    """The commands of the environment that has PyTorch and its like. A tier that cannot run is a failure."""
    usual = Path(__file__).parents[1] / ".venv-frameworks"
    found = Path(os.environ.get("PREFECT_TPU_FRAMEWORKS_VENV") or usual, "bin")
    assert (found / "prefect-tpu").exists(), f"{found} is not there: `make setup-frameworks` makes it."
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine of its own for one test; nothing runs on it afterwards."""
    with Machine(tmp_path) as machine:
        yield machine


@pytest.fixture(scope="session")
def new_machine(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Machine]:
    """Makes a machine for several tests; use it in a `with` block."""
    return lambda: Machine(tmp_path_factory.mktemp("machine"))


@pytest.fixture(scope="session")
def wait_until() -> Callable[..., None]:
    """Polls until something is true; fails with what was awaited when it takes too long."""

    def wait(is_true: Callable[[], Any], what: str, seconds: float = 30.0) -> None:
        give_up = time.monotonic() + seconds
        while not is_true():
            assert time.monotonic() < give_up, f"{what} did not come within {seconds} s"
            time.sleep(0.02)

    return wait
