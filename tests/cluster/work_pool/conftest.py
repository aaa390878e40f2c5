"""Flows on slices: a real Prefect server, the control plane of the folder above, real workers between the two.

`stage`: what all pools share. `servers`: by the name of the database, a Prefect server that runs on it.
`new_pool(server, name)`: a pool of a Prefect server, for as long as the session lasts; a third argument changes its
    template.
`outcome_of(name, database)`: what came of a story. All stories whose tests were selected begin as soon as the first is
    asked for, some at once, on a pool with two workers for each database.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[2]
sys.path += [str(Path(__file__).parent), str(TESTS / "prefect"), str(TESTS / "cluster" / "chaos")]  # no packages

from cluster import Cluster  # noqa: E402
from gcs import Gcs  # noqa: E402
from neighbour import Neighbour, running_neighbour  # noqa: E402
from postgres_server import running_postgres  # noqa: E402
from prefect_server import IMPATIENT, Server, running_server  # noqa: E402
from scenes import Scene, Story  # noqa: E402
from slice_pool import SlicePool, Stage, slice_pool, with_prefect  # noqa: E402

AT_ONCE = 8  # stories; a run's start takes seconds of a core
WORKERS = 2

# A slot's lease is the shortest that the server takes: it is lost in a test's time where nobody renews it.
# What four workers and the server do over and over is done less often: it cost half of the machine.
SETTINGS = {
    **IMPATIENT,
    "PREFECT_WORKER_QUERY_SECONDS": "3",
    "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "60",
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
def new_pool(stage: Stage) -> Iterator[Callable[..., SlicePool]]:
    with ExitStack() as running:
        yield lambda *of: running.enter_context(slice_pool(stage, *of))


@pytest.fixture(scope="session")
def pool_on(new_pool: Callable[[Server, str], SlicePool], request: pytest.FixtureRequest) -> Callable[[str], SlicePool]:
    """The pool with two workers of a database's server."""
    made: dict[str, SlicePool] = {}

    def find(database: str) -> SlicePool:
        if database not in made:
            made[database] = new_pool(request.getfixturevalue(database), database)
            for _ in range(WORKERS):
                made[database].workers.start()
        return made[database]

    return find


@pytest.fixture(scope="session")
def neighbour(cluster: Cluster, postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbour]:
    with running_neighbour(cluster, postgres, tmp_path_factory.mktemp("neighbour")) as found:
        yield found


@pytest.fixture(scope="session")
def outcomes(
    pool_on: Callable[[str], SlicePool], request: pytest.FixtureRequest
) -> Iterator[dict[tuple[str, str], Future[Any]]]:
    """Of all stories of selected tests, by name and database."""
    wanted: dict[tuple[str, str], Story] = {}
    for item in request.session.items:
        found = getattr(item, "callspec", None)
        if found and isinstance(story := found.params.get("story"), Story):
            wanted[story.name, found.params["database"]] = story
    if any(story.needs_kueue for story in wanted.values()):
        request.getfixturevalue("kueue")
    if any(database == "postgres" for _, database in wanted):
        request.getfixturevalue("neighbour")  # is there all the time
    pools = {database: pool_on(database) for _, database in wanted}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        in_turn = sorted(wanted.items(), key=lambda item: not item[1].waits)
        yield {key: threads.submit(_staged, story, pools[key[1]]) for key, story in in_turn}
        threads.shutdown(cancel_futures=True)


@pytest.fixture
def outcome_of(outcomes: dict[tuple[str, str], Future[Any]], pool_on: Callable[[str], SlicePool]) -> Any:
    """What came of a story; waits for it."""

    def wait(story: Story, database: str) -> Any:
        try:
            return outcomes[story.name, database].result()
        except AssertionError as error:
            error.add_note(pool_on(database).workers.told())
            raise

    return wait


def _staged(story: Story, pool: SlicePool) -> Any:
    scene = Scene(name=f"{pool.name[:2]}-{story.name}", pool=pool)
    try:
        return story.play(scene)
    finally:
        scene.clear()
