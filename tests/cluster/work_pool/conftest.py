"""Flows on slices: a real Prefect server, the control plane of the folder above, real workers between the two.

`stage`: what all pools share. `servers`: by the name of the database, a Prefect server that runs on it.
`new_pool(server, name)`: a pool of a Prefect server, for as long as the module lasts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
sys.path += [str(Path(__file__).parent), str(TESTS / "prefect"), str(TESTS / "cluster" / "chaos")]  # no packages

from cluster import Cluster  # noqa: E402
from gcs import Gcs  # noqa: E402
from postgres_server import running_postgres  # noqa: E402
from prefect_server import IMPATIENT, Server, running_server  # noqa: E402
from slice_pool import SlicePool, Stage, slice_pool, with_prefect  # noqa: E402

# The shortest that the server takes; a slot is lost in a test's time where nobody renews it.
SETTINGS = {
    **IMPATIENT,
    "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "30",
    "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "1",
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "2",
}


@pytest.fixture(scope="session")
def stage(cluster: Cluster, gcs: Gcs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Nodes for flows without chips, and this process as one that takes the fake for Google."""
    found = Stage(cluster=cluster, gcs=gcs, folder=tmp_path_factory.mktemp("pools"))
    with_prefect(found)
    nodes = cluster.add_cpus("flows", count=2)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in gcs.environment.items():
            patch.setenv(name, value)
        yield found
    cluster.delete_nodes(*nodes)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("postgres")
    with running_postgres(folder) as database, running_server(folder, SETTINGS, database=database) as server:
        yield server


@pytest.fixture(scope="session")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sqlite"), SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def new_pool(stage: Stage) -> Iterator[Callable[[Server, str], SlicePool]]:
    with ExitStack() as running:
        yield lambda server, name: running.enter_context(slice_pool(stage, server, name))
