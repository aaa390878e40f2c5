"""What Google refuses of a node pool is refused by the fake: one row a rule, asked by Google's own client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import container
import httpx
import pytest
from google.api_core.exceptions import BadRequest, GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud.container_v1 import ClusterManagerClient, NodePool

CLUSTER = "projects/p/locations/us-east5/clusters/c"
ZONE = "us-east5-a"
COMPACT = {"type_": "COMPACT", "tpu_topology": "4x4"}
RESERVED = {"consume_reservation_type": "SPECIFIC_RESERVATION", "key": "compute.googleapis.com/reservation-name"}

Change = Callable[[dict[str, Any]], object]

JOINED = {
    "name": "pool",
    "initial_node_count": 4,
    "locations": [ZONE],
    "config": {"machine_type": "ct6e-standard-4t"},
    "placement_policy": COMPACT,
}
ALONE = {"name": "pool", "initial_node_count": 1, "locations": [ZONE], "config": {"machine_type": "ct6e-standard-8t"}}
IRONWOOD = {
    "name": "pool",
    "initial_node_count": 4,
    "locations": [ZONE],
    "config": {"machine_type": "tpu7x-standard-4t"},
    "placement_policy": {"policy_name": "four", "tpu_topology": "2x2x4"},
}
FLEX = {
    **JOINED,
    "initial_node_count": 0,
    "config": {"machine_type": "ct6e-standard-4t", "flex_start": True, "max_run_duration": "3600s"},
    "autoscaling": {"enabled": True, "max_node_count": 4, "location_policy": "ANY"},
}
QUEUED = {**FLEX, "queued_provisioning": {"enabled": True}}
GPUS = {
    "name": "pool",
    "initial_node_count": 1,
    "locations": [ZONE],
    "config": {
        "machine_type": "g2-standard-24",
        "accelerators": [{"accelerator_type": "nvidia-l4", "accelerator_count": 2}],
    },
}


@pytest.fixture(scope="module")
def google() -> Iterator[container.Google]:
    with container.running() as google:
        google.add_cluster(CLUSTER)
        google.world.policies.update(four="2x2x4", alone="2x2x1", flat="4x4")
        google.world.reservations = {"ours"}
        google.world.accounts.add("forbidden@p.iam.gserviceaccount.com")
        yield google


@pytest.fixture(scope="module")
def client(google: container.Google) -> ClusterManagerClient:
    options = {"api_endpoint": google.url}
    return ClusterManagerClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)


def _sets(path: str, value: Any) -> Change:
    """Puts a value where dots say."""
    *folders, last = path.split(".")

    def change(pool: dict[str, Any]) -> None:
        for folder in folders:
            pool = pool.setdefault(folder, {})
        pool[last] = value

    return change


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a topology on a pool of single hosts": (
        ALONE,
        {"placement_policy": {"type_": "COMPACT", "tpu_topology": "2x4"}},
        "TPU topology can't be specified with single-host TPU slice pool; please remove the tpu_topology",
    ),
    "compact single hosts": (ALONE, {"placement_policy.type_": "COMPACT"}, "not supported for single-host"),
    "a workload policy on single hosts": (
        ALONE,
        {"config.machine_type": "tpu7x-standard-4t", "placement_policy.policy_name": "alone"},
        "TPU topology can't be specified with single-host TPU slice pool",
    ),
    "a workload policy that is not there": (IRONWOOD, {"placement_policy.policy_name": "none"}, "was not found"),
    "a workload policy of another topology": (IRONWOOD, {"placement_policy.policy_name": "flat"}, "does not match"),
    "a workload policy for machines that take none": (
        JOINED,
        {"config.machine_type": "ct5lp-hightpu-4t", "placement_policy": {"policy_name": "flat", "tpu_topology": "4x4"}},
        "Workload policy is not supported for machine type ct5lp-hightpu-4t",
    ),
    "a policy and compact": (IRONWOOD, {"placement_policy.type_": "COMPACT"}, "mutually exclusive"),
    "a topology that is not compact": (
        JOINED,
        {"placement_policy.type_": "TYPE_UNSPECIFIED"},
        "only be specified with",
    ),
    "a compact pool in several zones": (JOINED, {"locations": [ZONE, "us-east5-b"]}, "in a single zone only"),
    "a slice without zone in a regional cluster": (JOINED, {"locations": []}, "in a single zone only"),
    "a zone of another region": (JOINED, {"locations": ["us-central1-a"]}, "not valid for this cluster"),
    "fewer nodes than hosts": (JOINED, {"initial_node_count": 3}, "Initial node count 3 is not a valid size"),
    "more nodes than hosts": (JOINED, {"initial_node_count": 8}, "Initial node count 8 is not a valid size"),
    "a topology of another generation": (JOINED, {"placement_policy.tpu_topology": "2x2x4"}, '"2x2x4" is invalid'),
    "a topology that is none": (JOINED, {"placement_policy.tpu_topology": "large"}, '"large" is invalid'),
    "a topology of other machines": (
        JOINED,
        {"config.machine_type": "ct6e-standard-1t"},
        '"4x4" is invalid for machine type ct6e-standard-1t',
    ),
    "v3 alone": (ALONE, {"config.machine_type": "ct3p-hightpu-4t"}, "doesn't support single host topology"),
    "sides that do not rise": (
        IRONWOOD,
        {"config.machine_type": "ct5p-hightpu-4t", "placement_policy": {"type_": "COMPACT", "tpu_topology": "8x4x4"}},
        '"8x4x4" is invalid for machine type ct5p-hightpu-4t',
    ),
    "an unknown machine type": (ALONE, {"config.machine_type": "ct9z-hightpu-4t"}, "does not exist in zone"),
    "no TPU with a topology": (
        JOINED,
        {"config.machine_type": "e2-standard-8"},
        "can't be specified with machine type",
    ),
    "autoscaling to fewer than the hosts": (
        JOINED,
        {"initial_node_count": 0, "autoscaling": {"enabled": True, "max_node_count": 2}},
        "Maximum node count 2 is not a valid size of TPU pod slice with topology 4x4",
    ),
    "autoscaling in total": (
        JOINED,
        {"initial_node_count": 0, "autoscaling": {"enabled": True, "total_max_node_count": 4}},
        "Maximum node count 0 is not a valid size of TPU pod slice with topology 4x4",
    ),
    "autoscaling from a part of the hosts": (
        JOINED,
        {"initial_node_count": 0, "autoscaling": {"enabled": True, "min_node_count": 1, "max_node_count": 4}},
        "Minimum node count 1 is not a valid size",
    ),
    "autoscaling both ways": (
        ALONE,
        {"autoscaling": {"enabled": True, "max_node_count": 4, "total_max_node_count": 4}},
        "mutually exclusive",
    ),
    "autoscaling to nothing": (ALONE, {"autoscaling": {"enabled": True}}, "must be at least 1"),
    "spot of a reservation": (
        JOINED,
        {"config.spot": True, "config.reservation_affinity": {**RESERVED, "values": ["ours"]}},
        "Spot VMs can't consume reservations",
    ),
    "spot and flex-start": (FLEX, {"config.spot": True}, "Spot VMs can't be used with flex-start"),
    "spot and queued": (QUEUED, {"config.spot": True}, "Spot VMs can't be used with flex-start"),
    "flex-start of a reservation": (
        FLEX,
        {"config.reservation_affinity": {**RESERVED, "values": ["ours"]}},
        "must be NO_RESERVATION",
    ),
    "queued of a reservation": (
        QUEUED,
        {"config.flex_start": False, "config.reservation_affinity": {**RESERVED, "values": ["ours"]}},
        "must be NO_RESERVATION",
    ),
    "flex-start with a static count": (FLEX, {"initial_node_count": 4}, "the static node count must be 0"),
    "flex-start without autoscaling": (FLEX, {"autoscaling": {}}, "must have autoscaling enabled"),
    "flex-start that balances": (FLEX, {"autoscaling.location_policy": "BALANCED"}, "must have location policy ANY"),
    "flex-start that repairs": (FLEX, {"management.auto_repair": True}, "auto-repair must be disabled"),
    "flex-start for over a week": (FLEX, {"config.max_run_duration": "604801s"}, "at most 604800 seconds"),
    "flex-start of v4": (
        FLEX,
        {
            "config.machine_type": "ct4p-hightpu-4t",
            "placement_policy.tpu_topology": "2x2x4",
        },
        "ct4p-hightpu-4t is not supported with flex-start",
    ),
    "flex-start of v3": (FLEX, {"config.machine_type": "ct3p-hightpu-4t"}, "is not supported with flex-start"),
    "queued with nodes": (QUEUED, {"autoscaling.min_node_count": 4}, "the static node count must be 0"),
    "a reservation that is not there": (
        JOINED,
        {"config.reservation_affinity": {**RESERVED, "values": ["theirs"]}},
        "Reservation theirs not found in zone us-east5-a",
    ),
    "a reservation without name": (JOINED, {"config.reservation_affinity": RESERVED}, "needs the key"),
    "a name for no specific reservation": (
        JOINED,
        {"config.reservation_affinity": {"consume_reservation_type": "ANY_RESERVATION", "values": ["ours"]}},
        "for SPECIFIC_RESERVATION only",
    ),
    "a name that is too long": (ALONE, {"name": "p" * 41}, "Must be a match of regex"),
    "a name that is none": (ALONE, {"name": "Pool_1"}, "Must be a match of regex"),
    "a resource label in capitals": (ALONE, {"config.resource_labels": {"job": "Digits"}}, 'label "job=Digits"'),
    "a node label that is too long": (ALONE, {"config.labels": {"job": "d" * 64}}, "is not valid"),
    "a taint that does nothing": (ALONE, {"config.taints": [{"key": "k", "value": "v"}]}, '"k" has no valid effect'),
    "a taint whose value is none": (
        ALONE,
        {"config.taints": [{"key": "k", "value": "a b", "effect": "NO_SCHEDULE"}]},
        '"k=a b" is not valid',
    ),
    "a taint that is there twice": (
        ALONE,
        {"config.taints": [{"key": "k", "value": value, "effect": "NO_SCHEDULE"} for value in "ab"]},
        '"k" is there twice',
    ),
    "a disk that the machine does not take": (ALONE, {"config.disk_type": "pd-ssd"}, "[pd-ssd] features are not"),
    "too few pods": (ALONE, {"max_pods_constraint.max_pods_per_node": 4}, "it must be from 8 to 256"),
    "blue-green upgrades of a slice": (JOINED, {"upgrade_settings.strategy": "BLUE_GREEN"}, "Blue-green"),
    "other GPUs than the machine has": (GPUS, {"config.machine_type": "g2-standard-48"}, "has 4 nvidia-l4"),
    "GPUs of a TPU": (
        ALONE,
        {"config.accelerators": [{"accelerator_type": "nvidia-l4", "accelerator_count": 1}]},
        "can't be attached to machine type ct6e-standard-8t",
    ),
    "GPUs of a machine that takes none": (GPUS, {"config.machine_type": "e2-standard-8"}, "can't be attached"),
    "a service account of others": (
        ALONE,
        {"config.service_account": "forbidden@p.iam.gserviceaccount.com"},
        "Ask a project owner to grant you the iam.serviceAccountUser role",
    ),
}


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_google_refuses(
    row: tuple[dict[str, Any], dict[str, Any], str], google: container.Google, client: ClusterManagerClient
) -> None:
    base, changes, words = row
    asked = deepcopy(base)
    for path, value in changes.items():
        _sets(path, value)(asked)
    with pytest.raises(BadRequest) as refused:
        client.create_node_pool(parent=CLUSTER, node_pool=NodePool(asked))
    assert words in refused.value.message
    assert not google.pools


@pytest.mark.parametrize(
    "base",
    [JOINED, ALONE, IRONWOOD, FLEX, QUEUED, GPUS],
    ids=["joined", "alone", "policy", "flex-start", "queued", "gpus"],
)
def test_what_each_row_changes_is_taken_as_it_was(base: dict[str, Any]) -> None:
    with container.running() as google:
        google.add_cluster(CLUSTER)
        google.world.policies["four"] = "2x2x4"
        options = {"api_endpoint": google.url}
        client = ClusterManagerClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)
        client.create_node_pool(parent=CLUSTER, node_pool=NodePool(base))
        assert list(google.pools) == [f"{CLUSTER}/nodePools/pool"]


def test_fields_that_google_does_not_know_are_refused(google: container.Google) -> None:
    answer = httpx.post(f"{google.url}/v1/{CLUSTER}/nodePools", json={"nodePool": {"naem": "pool"}})
    assert answer.status_code == 400
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert "naem" in answer.json()["error"]["message"]


def test_the_effect_of_a_taint_is_spelled_as_the_api_does(google: container.Google) -> None:
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}  # as Kubernetes spells it
    body = {"nodePool": {**ALONE, "config": {**ALONE["config"], "taints": [taint]}}}
    answer = httpx.post(f"{google.url}/v1/{CLUSTER}/nodePools", json=body)
    assert answer.status_code == 400 and "NoSchedule" in answer.json()["error"]["message"]
    assert not google.pools


def test_errors_are_read_by_googles_client_with_their_status(client: ClusterManagerClient) -> None:
    with pytest.raises(GoogleAPICallError) as missing:
        client.get_cluster(name=f"{CLUSTER}-not")
    said = missing.value.response.json()["error"]
    assert said == {"code": 404, "status": "NOT_FOUND", "message": f"Not found: {CLUSTER}-not."}
