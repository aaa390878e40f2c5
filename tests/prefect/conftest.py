"""One real Prefect server, one worker and one source of orchestrators for all tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package; these modules are for this folder

from prefect_jobs import Job, Orchestrators  # noqa: E402
from prefect_server import Server, kill_tree, running_server  # noqa: E402
from retrainings import Retrainings  # noqa: E402
from sweep_runs import Sweep  # noqa: E402

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="session")
def new_job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Job]]:
    """Makes jobs; nothing of them lives after the tests."""
    made: list[Job] = []

    def make(name: str) -> Job:
        made.append(Job(name=name, folder=tmp_path_factory.mktemp(name)))
        return made[-1]

    yield make
    for process in [process for job in made for process in job.processes()]:
        process.kill()


@pytest.fixture(scope="session")
def new_sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Sweep]]:
    """The same of sweeps."""
    made: list[Sweep] = []

    def make(name: str, slices: int = 2) -> Sweep:
        made.append(Sweep(name=name, folder=tmp_path_factory.mktemp(name), slices=slices))
        return made[-1]

    yield make
    for process in [process for sweep in made for process in sweep.lives_here()]:
        process.kill()


@pytest.fixture(scope="session")
def orchestrators(server: Server, new_job: Callable[[str], Job]) -> Iterator[Orchestrators]:
    source = subprocess.Popen(
        [sys.executable, "-P", str(HERE / "orchestrator.py")],
        env=dict(server.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    orchestrators = Orchestrators(source)
    yield orchestrators
    orchestrators.kill_all()
    kill_tree(source)
    assert source.stdin is not None and source.stdout is not None
    source.stdin.close()
    source.stdout.close()


@pytest.fixture
def model(orchestrators: Orchestrators, new_job: Callable[[str], Job]) -> Retrainings:
    """A model of a test's own."""
    return Retrainings(orchestrators, new_job("retrain"))
