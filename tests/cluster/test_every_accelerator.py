"""The real scheduler places a job of every accelerator on the nodes that the fake of Google makes for its pool.

Slices of a few hosts, and the largest of v6e, are placed whole: a JobSet, by JobSet's exclusive placement. Of all the
others one host is placed for each machine type, alone and joined, and each way to pay for it: the nodes of a slice
differ in nothing but their names, and those of two topologies in one label.

No kubelet stands behind these nodes: nothing runs on them, and on a busy machine they count as lost before all pods are
placed. So the pods tolerate that, and no other taint than ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import container
import pytest
from cluster import Cluster
from container_world import Delays, World
from control_plane import Api, ApiError, Object
from google.auth.credentials import AnonymousCredentials
from google.cloud.container_v1 import ClusterManagerClient
from objects import Namespace

from prefect_tpu.infra.gcp import pool_names
from prefect_tpu.infra.gcp.pool_request import workload_policy
from tests.infra.gcp.every_accelerator import CAPACITIES, ZONES, Wanted, wanted

pytestmark = pytest.mark.cluster

AT_ONCE = 8  # requests
LOST = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ("not-ready", "unreachable")]
WHOLE = {
    "v3": "v3-32",
    "v4": "v4-16:spot",
    "v5e": "v5e-16:queue",
    "v5p": "v5p-16:flex-start",
    "v6e": "v6e-16:reserved=block-a",
    "v6e-of-fours": "v6e-8@ct6e-standard-4t:spot",
    "v6e-largest": "v6e-256",
    "v6e-alone": "v6e-8:flex-start",
    "tpu7x": "tpu7x-16:reserved=block-a",
    "tpu7": "tpu7-16:spot",
    "gpus": "h100x8:spot",
}


class Registered:
    """Machines that are nothing but Node objects."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def add_nodes(self, nodes: Iterable[Object]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(self._add, nodes))

    def _add(self, node: Object) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "as far as one knows"}
        self._api.post("/api/v1/nodes", {**node, "status": {**node["status"], "conditions": [ready]}})

    def delete_nodes(self, *names: str) -> None:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(self._delete, names))

    def _delete(self, name: str) -> None:
        try:
            self._api.delete(f"/api/v1/nodes/{name}")
        except ApiError as error:
            if error.status != 404:
                raise

    reclaim_spot = delete_nodes


@pytest.fixture
def machines(cluster: Cluster) -> Registered:
    return Registered(cluster.api)


@pytest.fixture
def here(cluster: Cluster, namespace: str) -> Namespace:
    return Namespace(cluster.api, namespace)


@pytest.fixture
def google(machines: Registered) -> Iterator[container.Google]:
    with container.running(machines, World(delays=Delays(pending=0, making=0, nodes=0, repair=0))) as google:
        yield google
        machines.delete_nodes(*[name for pool in google.pools for name in google.nodes_of(pool)])
        assert not google.errors, google.errors


def test_slices_are_placed_whole_on_the_nodes_of_their_pools(
    google: container.Google, here: Namespace, until: Callable[..., Any]
) -> None:
    jobs = {job: Wanted(accelerator, job=job) for job, accelerator in WHOLE.items()}
    pools = {job: ask(google, one) for job, one in jobs.items()}
    for one in jobs.values():
        tolerate_loss(one)
        here.start({**one.jobset, "metadata": {**one.jobset["metadata"], "namespace": here.name}})
    for job, one in jobs.items():
        nodes = until(lambda job=job, one=one: placed(here, f"{job}-1", one.shape.hosts), f"{job}'s hosts to be placed")
        assert sorted(nodes) == sorted(google.nodes_of(pools[job])), one.accelerator


def ask(google: container.Google, one: Wanted) -> str:
    """A pool in a cluster of its own, for a cluster makes one at a time; its full name."""
    cluster = f"projects/p/locations/us-east5/clusters/{one.job}"
    google.add_cluster(cluster, ZONES)
    google.world.policies[str(workload_policy(one.shape))] = str(one.shape.topology)
    options = {"api_endpoint": google.url}
    client = ClusterManagerClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)
    client.create_node_pool(parent=cluster, node_pool=one.pool)
    return f"{cluster}/nodePools/{one.pool.name}"


def tolerate_loss(one: Wanted) -> None:
    spec = one.pod["spec"]
    spec["tolerations"] = [*spec.get("tolerations", []), *LOST]


def placed(here: Namespace, jobset: str, hosts: int) -> list[str]:
    """The nodes of all hosts, once all have one."""
    nodes = [pod["spec"].get("nodeName", "") for pod in here.of(jobset)]
    return nodes if len(nodes) == hosts and all(nodes) else []


def test_a_host_of_every_machine_is_placed_however_it_is_paid_for(
    cluster: Cluster, machines: Registered, here: Namespace, until: Callable[..., Any]
) -> None:
    """All nodes are there at once; each pod has one place among them."""
    asked = {f"host-{index}": one for index, one in enumerate(of_each_kind())}
    machines.add_nodes(one.node for one in asked.values())
    try:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(here.make, (host(name, one) for name, one in asked.items())))
        until(lambda: not here.api.get(here.pods, fieldSelector="spec.nodeName=")["items"], "places for all hosts")
        found = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in here.api.get(here.pods)["items"]}
        assert found == {name: one.node["metadata"]["name"] for name, one in asked.items()}
    finally:
        cluster.api.delete("/api/v1/nodes", labelSelector=f"{pool_names.JOB}=digits")


def of_each_kind() -> list[Wanted]:
    """A slice of each machine type, alone and joined, in each way to pay for it; of one way also the largest."""
    found: dict[tuple[object, ...], Wanted] = {}
    for capacity in CAPACITIES:
        for one in sorted(wanted(capacity), key=lambda one: one.shape.chips):
            found.setdefault((one.shape.machine_type, one.shape.hosts > 1, capacity), one)
            if not capacity and one.shape.hosts > 1:
                found[one.shape.machine_type, "largest"] = one
    return list({one.accelerator: one for one in found.values()}.values())


def host(name: str, one: Wanted) -> Object:
    tolerate_loss(one)
    meta = {**one.pod["metadata"], "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": one.pod["spec"]}
