"""A real Kubernetes control plane for the tests of this folder, and a kubelet whose containers are processes.

`cluster` (one per session): `cluster.api` (paths in, dicts out, as administrator), `cluster.kubeconfig` (a file, for
    other clients), `cluster.plane` (the control plane), `cluster.kubelet` (what happens to nodes: `reclaim_spot`,
    `shut_down`, `maintain`, `announce_maintenance`, `silence`, `reconnect`, `crash`, `delete_nodes`; and
    `images.add`), `cluster.add_slice("v6e-16", pool="a")`, `cluster.add_cpus("cpu")` (nodes, schedulable when it
    returns; their names). Nodes belong to the session: name pools after your test and hand them back by
    `cluster.delete_nodes(*names)`, or use `fresh_pool`.
`fresh_pool`: `fresh_pool("v6e-16")` makes a slice in a pool named after the test; it is gone when the test is over.
`namespace` (one per test): its name; when the test is over it is deleted with everything in it.
`kueue`: the `cluster`, with Kueue beside the rest from then on.
`kubeconfig_for`: `kubeconfig_for(name, rules)` is the file of a service account of `namespace` that may do what these
    rules of a Role allow, and nothing else.
`until`: `until(look, what)` polls until something is true and returns it; a 404 counts as not yet.

Images: `pod-python` has a `python` with JAX, Orbax and gcsfs and nothing of ours; `system` has this machine's own
    programs alone, such as `sh` and `sleep`. Every other name cannot be pulled. Containers have an empty home and
    working folder, no environment of ours, and do not see this clone.

`make control-plane` builds the control plane; `make setup-pod` makes the Python environment of pods.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

sys.path.append(str(Path(__file__).parent))  # tests are no package; these modules are for this folder

from cluster import PREFIX, Cluster, running_cluster, sweep  # noqa: E402
from control_plane import ApiError, quick_folder  # noqa: E402
from state_of import told  # noqa: E402

PATIENCE = 180.0  # seconds until what was waited for counts as missing; a busy machine takes long
LOOK_SECONDS = 0.05
T = TypeVar("T")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed is told with what the cluster says: it is gone when anybody reads of it."""
    report = yield
    found = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and report.when == "call" and isinstance(found, Cluster):
        report.sections.append(("the cluster", told(found)))
    return report


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    sweep(quick_folder())
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=quick_folder()))
    try:
        with running_cluster(folder) as cluster:
            yield cluster
            assert not cluster.kubelet.errors, cluster.kubelet.errors
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def kueue(cluster: Cluster) -> Cluster:
    cluster.plane.start_kueue()
    return cluster


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    with cluster.namespace(_name_of(request)) as made:
        yield made.name


@pytest.fixture
def fresh_pool(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Callable[[str], list[str]]]:
    made: list[str] = []

    def make(accelerator: str, ending: str = "") -> list[str]:
        names = cluster.add_slice(accelerator, pool=_name_of(request) + ending)
        made.extend(names)
        return names

    yield make
    cluster.delete_nodes(*made)


@pytest.fixture
def kubeconfig_for(cluster: Cluster, namespace: str) -> Callable[[str, Sequence[Mapping[str, Any]]], Path]:
    return lambda name, rules: cluster.plane.kubeconfig_for(namespace, name, rules)


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    def wait(look: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
        end = time.monotonic() + seconds
        while True:
            try:
                if found := look():
                    return found
            except ApiError as error:
                if error.status != 404:
                    raise
            assert time.monotonic() < end, f"{what} did not come within {seconds:.0f} s"
            time.sleep(LOOK_SECONDS)

    return wait


def _name_of(request: pytest.FixtureRequest) -> str:
    """A name that objects may have, after the test's."""
    bare = re.sub("[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_")).strip("-")
    return f"{bare[:24].strip('-')}-{os.urandom(2).hex()}"
