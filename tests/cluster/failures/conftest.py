"""Failures, each played for real on one cluster: `outcome_of(case)` is how it went.

All cases that were selected begin as soon as the first is asked for, some at once: each has a namespace, node pools and
a folder of its own. `RECORD_FAILURES=1` (`make failures`) also writes down what was seen, for the page and for the
tests without a cluster.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

sys.path.append(str(Path(__file__).parent))  # tests are no package; these modules are for this folder
sys.path.append(str(Path(__file__).parents[2] / "infra" / "backends"))  # what reads a recording there

import written  # noqa: E402
from case import Case  # noqa: E402
from cluster import Cluster  # noqa: E402
from control_plane import users  # noqa: E402
from play import Outcome, play  # noqa: E402
from recorder import Recorder  # noqa: E402
from stage import Stage  # noqa: E402

AT_ONCE = 12
BUSY = 2  # of them; the others wait for something
RECORD = "RECORD_FAILURES"


@pytest.fixture(scope="session")
def selected(request: pytest.FixtureRequest) -> list[Case]:
    """The cases whose tests run, those that take long first."""
    found = {}
    for item in request.session.items:
        case = getattr(item, "callspec", None) and item.callspec.params.get("case")
        if isinstance(case, Case):
            found[case.name] = case
    return sorted(found.values(), key=lambda case: -case.plain_seconds if case.change_plain else 0.0)


@pytest.fixture(scope="session")
def recorder(cluster: Cluster) -> Iterator[Recorder]:
    with Recorder(cluster.api) as recording:
        yield recording


@pytest.fixture(scope="session")
def outcomes(
    cluster: Cluster,
    recorder: Recorder,
    selected: list[Case],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[Outcome]]]:
    if any(case.needs_kueue for case in selected):
        request.getfixturevalue("kueue")
        recorder.watch_workloads()
    began = time.monotonic()
    links = tmp_path_factory.mktemp("shared")  # the cluster's own folder lies in /dev/shm, where pods mount nothing
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(AT_ONCE) as pool:
        patch.setenv("KUBECONFIG", str(_two_users(cluster)))
        turn = threading.Semaphore(BUSY)
        yield {case.name: pool.submit(_staged, cluster, recorder, case, links, turn) for case in selected}
        pool.shutdown(cancel_futures=True)
    if os.environ.get(RECORD):
        written.keep_run(cluster, began)


@pytest.fixture(scope="session")
def outcome_of(outcomes: dict[str, Future[Outcome]]) -> Callable[[Case], Outcome]:
    """How a case went; waits for it."""
    return lambda case: outcomes[case.name].result()


def _staged(cluster: Cluster, recorder: Recorder, case: Case, links: Path, turn: threading.Semaphore) -> Outcome:
    name = f"f-{case.name}"
    folder = links / name
    folder.symlink_to(cluster.kubelet.bucket(name))
    stage = Stage(cluster, recorder, name, folder)
    cluster.make_namespace(name)
    try:
        for ending in "ab"[: case.pools]:
            stage.add_pool(ending, case.accelerator)
        outcome = play(case, stage, turn)
        if os.environ.get(RECORD):
            written.keep(outcome)
        return outcome
    finally:
        stage.clear()


def _two_users(cluster: Cluster) -> Path:
    """A kubeconfig with the administrator, and `limited`, who may look and not make anything."""
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    token = users.make_service_account(cluster.api, "default", "limited", [rule])
    path = cluster.plane.folder / "failures.kubeconfig"
    users.write_kubeconfig(path, cluster.plane.server, token)
    own, admin = yaml.safe_load(path.read_text()), yaml.safe_load(cluster.kubeconfig.read_text())
    admin["users"].append({**own["users"][0], "name": "limited"})
    admin["contexts"].append({"name": "limited", "context": {"cluster": "test", "user": "limited"}})
    path.write_text(yaml.safe_dump(admin))
    return path
