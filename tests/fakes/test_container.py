"""What becomes of node pools in the fake: operations, stockouts, quota, rights, reclaims, and the nodes that come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import container
import pytest
from container_world import Delays, World
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.container_v1 import ClusterManagerClient, NodePool, Operation, StatusCondition
from google.rpc import code_pb2

CLUSTER = "projects/p/locations/us-east5/clusters/c"
PLACE = "projects/p/locations/us-east5"
NAME = f"{CLUSTER}/nodePools/pool"
Status = NodePool.Status
Wait = Callable[..., None]


class Machines:
    """Writes down what is made and taken."""

    def __init__(self) -> None:
        self.there: dict[str, Any] = {}
        self.reclaimed: list[str] = []

    def add_nodes(self, nodes: Iterable[dict[str, Any]]) -> None:
        self.there.update({str(node["metadata"]["name"]): node for node in nodes})

    def delete_nodes(self, *names: str) -> None:
        for name in names:
            del self.there[name]

    def reclaim_spot(self, *names: str) -> None:
        self.delete_nodes(*names)
        self.reclaimed += names


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def google(machines: Machines) -> Iterator[container.Google]:
    delays = Delays(pending=0, making=0.01, deleting=0.01, resizing=0.01, nodes=0, repair=0.01, patience=0.1)
    with container.running(machines, World(delays=delays)) as google:
        google.add_cluster(CLUSTER, endpoint="127.0.0.1:6443", authority=b"certificate")
        google.world.policies["four"] = "2x2x4"
        yield google
        assert not google.errors, google.errors


@pytest.fixture
def client(google: container.Google) -> ClusterManagerClient:
    options = {"api_endpoint": google.url}
    return ClusterManagerClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)


@pytest.fixture
def over(client: ClusterManagerClient, wait_until: Wait) -> Callable[[Operation], Operation]:
    """Waits for the end of an operation and gives it back as it is then."""

    def wait(operation: Operation) -> Operation:
        name = f"{PLACE}/operations/{operation.name}"
        wait_until(lambda: client.get_operation(name=name).status == Operation.Status.DONE, "the operation's end")
        return client.get_operation(name=name)

    return wait


def _pool(name: str = "pool", **more: Any) -> NodePool:
    return NodePool(
        {
            "name": name,
            "initial_node_count": 4,
            "locations": ["us-east5-a"],
            "config": {"machine_type": "ct6e-standard-4t", "spot": True},
            "placement_policy": {"type_": "COMPACT", "tpu_topology": "4x4"},
            **more,
        }
    )


def _create(client: ClusterManagerClient, pool: NodePool | None = None) -> Operation:
    return client.create_node_pool(parent=CLUSTER, node_pool=pool or _pool())


def _resize(client: ClusterManagerClient, count: int) -> Operation:
    return client.set_node_pool_size(request={"name": NAME, "node_count": count})


def _said(refused: pytest.ExceptionInfo[exceptions.GoogleAPICallError]) -> dict[str, Any]:
    """The error as Google wrote it."""
    return dict(refused.value.response.json()["error"])


def test_a_pool_is_provisioning_then_running_and_its_nodes_come(
    google: container.Google, client: ClusterManagerClient, over: Any, machines: Machines, wait_until: Wait
) -> None:
    with google.paused():
        operation = _create(client)
        assert client.get_node_pool(name=NAME).status == Status.PROVISIONING
    assert operation.operation_type == Operation.Type.CREATE_NODE_POOL
    assert operation.target_link.endswith(NAME)
    assert not over(operation).error.code
    assert client.get_node_pool(name=NAME).status == Status.RUNNING
    wait_until(lambda: len(machines.there) == 4, "four nodes")
    assert sorted(machines.there) == sorted(google.nodes_of("pool"))


def test_the_taints_of_a_pool_are_its_nodes_beside_googles_own(
    client: ClusterManagerClient, over: Any, machines: Machines, wait_until: Wait
) -> None:
    taint = {"key": "team/owner", "value": "a", "effect": "NO_SCHEDULE"}
    over(_create(client, _pool(config={"machine_type": "ct6e-standard-4t", "taints": [taint]})))
    wait_until(lambda: len(machines.there) == 4, "all nodes")
    own = {**taint, "effect": "NoSchedule"}
    chips = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
    assert all(node["spec"]["taints"] == [own, chips] for node in machines.there.values())


def test_a_deleted_pool_takes_its_nodes_along(
    google: container.Google, client: ClusterManagerClient, over: Any, machines: Machines, wait_until: Wait
) -> None:
    over(_create(client))
    wait_until(lambda: machines.there, "its nodes")
    with google.paused():
        operation = client.delete_node_pool(name=NAME)
        assert client.get_node_pool(name=NAME).status == Status.STOPPING
    over(operation)
    assert not client.list_node_pools(parent=CLUSTER).node_pools
    assert not machines.there
    with pytest.raises(exceptions.NotFound):
        client.delete_node_pool(name=NAME)


def test_a_cluster_is_described_with_its_pools(client: ClusterManagerClient, over: Any) -> None:
    over(_create(client))
    found = client.get_cluster(name=CLUSTER)
    assert [pool.name for pool in found.node_pools] == ["pool"]
    assert (found.endpoint, found.master_auth.cluster_ca_certificate) == ("127.0.0.1:6443", "Y2VydGlmaWNhdGU=")
    assert [one.name for one in client.list_clusters(parent="projects/p/locations/-").clusters] == ["c"]


def test_one_operation_at_a_time(google: container.Google, client: ClusterManagerClient, over: Any) -> None:
    google.add_cluster(f"{CLUSTER}2")
    with google.paused():
        first = _create(client)
        with pytest.raises(exceptions.BadRequest) as second:
            _create(client, _pool("other"))
        with pytest.raises(exceptions.BadRequest, match="incompatible operation"):
            client.delete_node_pool(name=NAME)  # while it is PROVISIONING
        client.create_node_pool(parent=f"{CLUSTER}2", node_pool=_pool())  # another cluster
    said = f"Cluster is running incompatible operation {first.name}."
    assert _said(second) == {"code": 400, "status": "FAILED_PRECONDITION", "message": said}
    over(first)
    over(_create(client, _pool("other")))


def test_a_name_that_is_taken_is_refused_even_where_the_pool_is_broken(
    google: container.Google, client: ClusterManagerClient, over: Any
) -> None:
    google.dry(times=1)
    assert over(_create(client)).error.code == code_pb2.RESOURCE_EXHAUSTED
    assert client.get_node_pool(name=NAME).status == Status.ERROR
    with pytest.raises(exceptions.Conflict) as taken:
        _create(client)
    assert _said(taken)["message"] == f"Already exists: {NAME}."
    over(client.delete_node_pool(name=NAME))
    over(_create(client))
    assert client.get_node_pool(name=NAME).status == Status.RUNNING


def test_a_stockout_is_done_with_an_error_and_leaves_the_pool(
    google: container.Google, client: ClusterManagerClient, over: Any, machines: Machines
) -> None:
    google.dry(zone="us-east5-a", machine="ct6e-standard-4t", capacity="spot")
    ended = over(_create(client))
    assert (ended.status, ended.error.code) == (Operation.Status.DONE, code_pb2.RESOURCE_EXHAUSTED)
    (condition,) = client.get_node_pool(name=NAME).conditions
    assert condition.code == StatusCondition.Code.GCE_STOCKOUT
    assert condition.canonical_code == code_pb2.RESOURCE_EXHAUSTED
    assert "does not have enough resources available to fulfill the request" in ended.error.message
    assert not machines.there


@pytest.mark.parametrize("where", [{"zone": "us-east5-b"}, {"machine": "ct6e-standard-8t"}, {"capacity": "on-demand"}])
def test_elsewhere_there_is_capacity(
    where: dict[str, str], google: container.Google, client: ClusterManagerClient, over: Any
) -> None:
    google.dry(**where)
    assert not over(_create(client)).error.code


def test_capacity_runs_out_and_comes_back(google: container.Google, client: ClusterManagerClient, over: Any) -> None:
    google.dry(after=1)
    assert not over(_create(client)).error.code
    assert over(_create(client, _pool("other"))).error.code
    google.wet()
    assert not over(_create(client, _pool("third"))).error.code


def test_quota_is_of_chips_and_in_use_by_other_pools(
    google: container.Google, client: ClusterManagerClient, over: Any
) -> None:
    google.world.chips["ct6e"] = 16
    assert not over(_create(client)).error.code
    ended = over(_create(client, _pool("other")))
    assert ended.nodepool_conditions[0].code == StatusCondition.Code.GCE_QUOTA_EXCEEDED
    assert "Limit: 16.0 in region us-east5" in ended.error.message
    over(client.delete_node_pool(name=NAME))
    over(client.delete_node_pool(name=f"{CLUSTER}/nodePools/other"))
    assert not over(_create(client)).error.code


def test_quota_may_be_missed_at_once(google: container.Google, client: ClusterManagerClient) -> None:
    google.world.chips["*"], google.world.is_quota_early = 8, True
    with pytest.raises(exceptions.Forbidden) as refused:
        _create(client)
    assert "request requires '16.0' and is short '8.0'" in refused.value.message
    assert not google.pools


@pytest.mark.parametrize(
    "placement",
    [{"type_": "COMPACT", "tpu_topology": "2x2x4"}, {"tpu_topology": "2x2x4"}],
    ids=["compact", "without a policy"],
)
def test_joined_ironwood_ends_in_error_without_a_workload_policy(
    placement: dict[str, str], client: ClusterManagerClient, over: Any
) -> None:
    machine = {"machine_type": "tpu7x-standard-4t"}
    ended = over(_create(client, _pool(config=machine, placement_policy=placement)))
    assert "Use workload policy instead" in ended.error.message
    assert client.get_node_pool(name=NAME).status == Status.ERROR
    policy = {"policy_name": "four", "tpu_topology": "2x2x4"}
    assert not over(_create(client, _pool("good", config=machine, placement_policy=policy))).error.code


def test_an_operation_fails_as_a_test_says(google: container.Google, client: ClusterManagerClient, over: Any) -> None:
    google.fail("PERMISSION_DENIED", "GKE_SERVICE_ACCOUNT_DELETED", "The GKE service account is gone.")
    assert over(_create(client)).error.message == "The GKE service account is gone."
    (condition,) = client.get_node_pool(name=NAME).conditions
    assert condition.code == StatusCondition.Code.GKE_SERVICE_ACCOUNT_DELETED


@pytest.mark.parametrize(
    ("permission", "resource", "ask"),
    [
        ("container.clusters.get", CLUSTER, lambda client: client.get_cluster(name=CLUSTER)),
        ("container.clusters.get", CLUSTER, lambda client: client.list_node_pools(parent=CLUSTER)),
        ("container.clusters.get", CLUSTER, lambda client: client.get_node_pool(name=NAME)),
        ("container.clusters.list", PLACE, lambda client: client.list_clusters(parent=PLACE)),
        ("container.clusters.update", CLUSTER, lambda client: _create(client)),
        ("container.clusters.update", CLUSTER, lambda client: client.delete_node_pool(name=NAME)),
        ("container.clusters.update", CLUSTER, lambda client: _resize(client, 0)),
        ("container.operations.get", "projects/p", lambda client: client.get_operation(name=f"{PLACE}/operations/o")),
        ("container.operations.list", "projects/p", lambda client: client.list_operations(parent=PLACE)),
    ],
)
def test_what_nobody_may_do_is_denied_by_its_permission(
    permission: str,
    resource: str,
    ask: Callable[[ClusterManagerClient], object],
    google: container.Google,
    client: ClusterManagerClient,
) -> None:
    google.world.denied.add(permission)
    with pytest.raises(exceptions.Forbidden) as denied:
        ask(client)
    assert _said(denied)["message"] == f'Required "{permission}" permission(s) for "{resource}".'


def test_writes_that_come_too_fast_are_refused(google: container.Google, client: ClusterManagerClient) -> None:
    google.world.writes_per_second = 0
    with pytest.raises(exceptions.TooManyRequests):
        _create(client)
    assert not client.list_node_pools(parent=CLUSTER).node_pools
    google.world.writes_per_second = 1
    _create(client)


@pytest.mark.parametrize(("is_done", "pools"), [(True, 1), (False, 0)])
def test_an_answer_may_be_lost_after_the_work_or_before(
    is_done: bool, pools: int, google: container.Google, client: ClusterManagerClient
) -> None:
    with (
        google.trouble(strikes=lambda request: request.called == "nodePools.create", is_done=is_done) as trouble,
        pytest.raises(OSError),
    ):
        _create(client)
    assert (trouble.struck, len(google.pools)) == (1, pools)


def test_google_may_be_unwell(google: container.Google, client: ClusterManagerClient) -> None:
    with google.trouble(code=503, times=1), pytest.raises(exceptions.ServiceUnavailable):
        client.get_cluster(name=CLUSTER, retry=None)
    assert client.get_cluster(name=CLUSTER).name == "c"
    assert [request.called for request in google.asked] == ["clusters.get"] * 2


def test_a_reclaimed_slice_is_made_again_as_a_whole(
    google: container.Google, client: ClusterManagerClient, over: Any, machines: Machines, wait_until: Wait
) -> None:
    over(_create(client))
    wait_until(lambda: machines.there, "its nodes")
    before = google.nodes_of("pool")
    with google.paused():
        google.reclaim("pool")
        assert client.get_node_pool(name=NAME).status == Status.RECONCILING
    wait_until(lambda: len(machines.there) == 4 and machines.reclaimed == before, "four other nodes")
    assert client.get_node_pool(name=NAME).status == Status.RUNNING
    assert not set(before) & set(machines.there)


def test_a_reclaimed_slice_without_capacity_ends_in_error(
    google: container.Google, client: ClusterManagerClient, over: Any, machines: Machines, wait_until: Wait
) -> None:
    over(_create(client))
    wait_until(lambda: machines.there, "its nodes")
    google.dry()
    google.reclaim("pool")
    wait_until(lambda: client.get_node_pool(name=NAME).status == Status.ERROR, "the end of Google's patience")
    assert client.get_node_pool(name=NAME).conditions[0].code == StatusCondition.Code.GCE_STOCKOUT
    assert not machines.there


def test_flex_start_is_empty_until_there_is_capacity(
    google: container.Google, client: ClusterManagerClient, over: Any, machines: Machines, wait_until: Wait
) -> None:
    google.dry(times=2)
    flex = {"machine_type": "ct6e-standard-4t", "flex_start": True, "max_run_duration": "3600s"}
    scaling = {"enabled": True, "max_node_count": 4}
    assert not over(_create(client, _pool(config=flex, autoscaling=scaling, initial_node_count=0))).error.code
    assert client.get_node_pool(name=NAME).status == Status.RUNNING
    wait_until(lambda: len(machines.there) == 4, "all nodes at once")


def test_a_pool_that_is_autoscaled_gets_its_nodes_once_a_pod_waits_for_them(
    machines: Machines, wait_until: Wait
) -> None:
    asked: list[str] = []
    are_pods_there = False

    def is_awaited(node: dict[str, Any]) -> bool:
        asked.append(node["metadata"]["labels"]["cloud.google.com/gke-nodepool"])
        return are_pods_there

    world = World(delays=Delays(pending=0, nodes=0, repair=0))
    scaling = {"enabled": True, "max_node_count": 4}
    with container.running(machines, world, is_awaited=is_awaited) as google:
        google.add_cluster(CLUSTER)
        google.add_pool(CLUSTER, _pool(status=Status.RUNNING, initial_node_count=0, autoscaling=scaling))
        wait_until(lambda: len(asked) > 1, "the autoscaler's second look")
        assert not machines.there
        are_pods_there = True
        wait_until(lambda: len(machines.there) == 4, "all nodes at once")
    assert set(asked) == {"pool"}


def test_a_pool_is_resized(
    google: container.Google, client: ClusterManagerClient, over: Any, machines: Machines, wait_until: Wait
) -> None:
    single = NodePool(
        name="pool", initial_node_count=2, locations=["us-east5-a"], config={"machine_type": "e2-standard-4"}
    )
    over(_create(client, single))
    wait_until(lambda: len(machines.there) == 2, "its nodes")
    over(_resize(client, 3))
    wait_until(lambda: len(machines.there) == 3, "one more")
    over(_resize(client, 1))
    wait_until(lambda: len(machines.there) == 1, "two less")
    assert client.get_node_pool(name=NAME).initial_node_count == 1


def test_a_slice_is_resized_to_nothing_or_to_its_hosts(client: ClusterManagerClient, over: Any) -> None:
    over(_create(client))
    with pytest.raises(exceptions.BadRequest, match="node count 2 is not a valid size"):
        _resize(client, 2)
    assert not over(_resize(client, 0)).error.code


def test_a_resize_without_capacity_leaves_the_pool_running_with_an_error(
    google: container.Google, client: ClusterManagerClient, over: Any
) -> None:
    over(_create(client))
    over(_resize(client, 0))
    google.dry()
    assert over(_resize(client, 4)).error.code == code_pb2.RESOURCE_EXHAUSTED
    assert client.get_node_pool(name=NAME).status == Status.RUNNING_WITH_ERROR


def test_labels_and_autoscaling_of_a_pool_change(client: ClusterManagerClient, over: Any) -> None:
    over(_create(client))
    over(client.update_node_pool(request={"name": NAME, "labels": {"labels": {"deadline": "2"}}}))
    over(
        client.set_node_pool_autoscaling(request={"name": NAME, "autoscaling": {"enabled": True, "max_node_count": 4}})
    )
    found = client.get_node_pool(name=NAME)
    assert (dict(found.config.labels), found.autoscaling.max_node_count) == ({"deadline": "2"}, 4)
    with pytest.raises(exceptions.BadRequest, match="Maximum node count 3"):
        client.set_node_pool_autoscaling(request={"name": NAME, "autoscaling": {"enabled": True, "max_node_count": 3}})


def test_operations_are_listed_by_place(google: container.Google, client: ClusterManagerClient, over: Any) -> None:
    first = over(_create(client))
    for place in (PLACE, "projects/p/locations/-"):
        assert [one.name for one in client.list_operations(parent=place).operations] == [first.name]
    assert not client.list_operations(parent="projects/p/locations/us-east").operations


def test_somebody_elses_pool_is_there_without_an_operation(
    google: container.Google, client: ClusterManagerClient, machines: Machines, wait_until: Wait
) -> None:
    google.add_pool(CLUSTER, _pool(status=Status.RUNNING))
    wait_until(lambda: len(machines.there) == 4, "its nodes")
    assert client.get_node_pool(name=NAME).status == Status.RUNNING
    assert not client.list_operations(parent=PLACE).operations
