"""What is asked for is what Google's own tools ask for: facts 2.1 to 2.3, row by row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.cloud.container_v1 import NodePool
from google.protobuf import json_format

from prefect_tpu.infra.accelerators import curated_names, resolve
from prefect_tpu.infra.gcp.pool_request import cannot_be_made, how_to_make_policy, node_pool, workload_policy
from tests.infra.gcp.pool_wishes import ZONE, wish

CAPACITIES = ("", ":spot", ":on-demand", ":flex-start", ":queue", ":reserved=block")


def asked(accelerator: str, **changes: Any) -> dict[str, Any]:
    return node_pool(wish(accelerator, **changes))


@pytest.mark.parametrize("accelerator", ["v6e-1", "v6e-8", "v5e-4", "v5p-8", "v4-8", "tpu7x-2", "tpu7x-8", "h100x8"])
def test_a_pool_of_single_hosts_has_no_topology(accelerator: str) -> None:
    assert "placementPolicy" not in asked(accelerator)
    assert "maxPodsConstraint" not in asked(accelerator)


@pytest.mark.parametrize(("accelerator", "topology", "nodes"), [("v6e-16", "4x4", 4), ("v5p-2x2x4", "2x2x4", 4)])
def test_a_pool_of_joined_hosts_is_compact_and_has_its_topology(accelerator: str, topology: str, nodes: int) -> None:
    pool = asked(accelerator)
    assert pool["placementPolicy"] == {"type": "COMPACT", "tpuTopology": topology}
    assert (pool["initialNodeCount"], pool["locations"]) == (nodes, [ZONE])
    assert pool["maxPodsConstraint"] == {"maxPodsPerNode": "15"}


def test_two_hosts_of_four_are_joined_where_one_host_of_eight_is_not() -> None:
    assert "placementPolicy" not in asked("v6e-8")
    assert asked("v6e-8@ct6e-standard-4t")["placementPolicy"]["tpuTopology"] == "2x4"


@pytest.mark.parametrize("accelerator", ["tpu7x-16", "tpu7-2x2x2"])
def test_the_newest_generations_are_placed_by_a_workload_policy(accelerator: str) -> None:
    placed = asked(accelerator)["placementPolicy"]
    assert placed == {"policyName": "prefect-tpu-2x2x2", "tpuTopology": "2x2x2"}
    said = how_to_make_policy(resolve(accelerator), ZONE)
    assert "create workload-policy prefect-tpu-2x2x2 --type=HIGH_THROUGHPUT --accelerator-topology=2x2x2" in said
    assert "--region=us-east5`" in said


@pytest.mark.parametrize("accelerator", ["tpu7x-8", "v6e-16", "v5p-32"])
def test_no_other_slice_has_a_workload_policy(accelerator: str) -> None:
    assert workload_policy(resolve(accelerator)) is None
    assert how_to_make_policy(resolve(accelerator), ZONE) == ""


def test_slices_of_one_host_are_nodes_of_one_pool() -> None:
    assert asked("v6e-8", slices=3)["initialNodeCount"] == 3


def test_spot_takes_no_reservation() -> None:
    config = asked("v6e-16:spot")["config"]
    assert config["spot"] is True
    assert config["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}


@pytest.mark.parametrize("name", ["block", "projects/other/reservations/block"])
def test_a_reservation_is_named_as_it_is_shared(name: str) -> None:
    affinity = asked(f"v6e-16:reserved={name}")["config"]["reservationAffinity"]
    assert affinity == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": [name],
    }


def test_on_demand_says_nothing_of_reservations() -> None:
    config = asked("v6e-16:on-demand")["config"]
    assert not {"spot", "reservationAffinity", "flexStart", "maxRunDuration"} & config.keys()


@pytest.mark.parametrize("capacity", ["flex-start", "queue"])
def test_nodes_that_are_waited_for_come_all_at_once_and_go_again(capacity: str) -> None:
    pool = asked(f"v6e-16:{capacity}")
    assert pool["initialNodeCount"] == 0
    scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 4, "locationPolicy": "ANY"}
    assert pool["autoscaling"] == scaling
    assert pool["management"]["autoRepair"] is False
    assert pool["config"]["flexStart"] is True
    assert pool["config"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert "spot" not in pool["config"]


@pytest.mark.parametrize(("wanted", "asked_for"), [(None, "604800s"), (3600.0, "3600s"), (1e9, "604800s")])
def test_they_run_for_as_long_as_the_job_and_for_seven_days_at_most(wanted: float | None, asked_for: str) -> None:
    assert asked("v6e-16:flex-start", run_seconds=wanted)["config"]["maxRunDuration"] == asked_for


def test_only_a_queued_pool_is_queued() -> None:
    pool = asked("v6e-16:queue")
    assert pool["queuedProvisioning"] == {"enabled": True}
    assert pool["config"]["labels"]["cloud.google.com/gke-queued"] == "true"
    other = asked("v6e-16:flex-start")
    assert "queuedProvisioning" not in other
    assert "cloud.google.com/gke-queued" not in other["config"]["labels"]


def test_v6e_has_its_network_profile_and_others_have_none() -> None:
    pool = asked("v6e-16")
    assert pool["networkConfig"] == {"acceleratorNetworkProfile": "auto"}
    assert pool["config"]["labels"]["cloud.google.com/gke-networking-dra-driver"] == "true"
    assert "networkConfig" not in asked("v5p-32")


@pytest.mark.parametrize(("accelerator", "is_hyper"), [("v6e-8", True), ("tpu7x-8", True), ("v5p-8", False)])
def test_machines_that_take_no_other_disk_get_hyperdisks(accelerator: str, is_hyper: bool) -> None:
    assert asked(accelerator)["config"].get("diskType") == ("hyperdisk-balanced" if is_hyper else None)


def test_gpus_are_named_with_their_driver() -> None:
    config = asked("l4x4")["config"]
    assert config["machineType"] == "g2-standard-48"
    (gpus,) = config["accelerators"]
    assert (gpus["acceleratorCount"], gpus["acceleratorType"]) == ("4", "nvidia-l4")
    assert "accelerators" not in asked("v6e-8")["config"]


def test_nodes_run_as_the_service_account_that_was_named() -> None:
    named = asked("v6e-8", service_account="nodes@project.iam.gserviceaccount.com")["config"]
    assert named["serviceAccount"] == "nodes@project.iam.gserviceaccount.com"
    assert "serviceAccount" not in asked("v6e-8")["config"]


@pytest.mark.parametrize(
    ("accelerator", "capacity", "why"),
    [
        ("cpu", "", "has no machine type"),
        ("v2-8", "", "has no machine type"),
        ("v6e-16", "reserved", "needs the name of the reservation"),
        ("v4-32", "flex-start", "no flex-start for v4"),
        ("v3-8", "queue", "no queue for v3"),
    ],
)
def test_what_cannot_be_made_is_said_before_google_is_asked(accelerator: str, capacity: str, why: str) -> None:
    said = cannot_be_made(accelerator, resolve(accelerator), capacity, None)
    assert said is not None and why in said


def test_what_is_not_wrong_is_not_objected_to() -> None:
    assert cannot_be_made("v6e-16:reserved=b", resolve("v6e-16:reserved=b"), "reserved", "b") is None
    assert cannot_be_made("v5p-32:flex-start", resolve("v5p-32:flex-start"), "flex-start", None) is None


@pytest.mark.parametrize("capacity", CAPACITIES)
def test_the_clients_own_type_has_room_for_everything_that_is_asked(capacity: str) -> None:
    """Nothing is asked for by a name that Google does not know: what comes out is what went in."""
    for name in curated_names():
        if resolve(name).machine_type is not None:
            body = asked(f"{name}{capacity}")
            message = NodePool.from_json(json.dumps(body), ignore_unknown_fields=False)
            back = json_format.MessageToDict(NodePool.pb(message))
            zeros = {"initialNodeCount", "minNodeCount"}  # which are left out
            assert _without(back, zeros) == _without(body, zeros)


def _without(value: Any, names: set[str]) -> Any:
    """The same without zeros and falses, which this form of JSON does not write."""
    if isinstance(value, dict):
        return {k: _without(v, names) for k, v in value.items() if k not in names and v is not False}
    return value
