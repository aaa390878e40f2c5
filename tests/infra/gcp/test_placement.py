"""Where hosts may run, by GKE's labels and taints."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_tpu.infra.accelerators import every_name, resolve
from prefect_tpu.infra.gcp import placement
from prefect_tpu.infra.gcp.pool_names import TAINT, taint_of
from tests.infra.gcp.golden_plans import IN_OWN_POOLS, Golden, pod_plan

G = "cloud.google.com/"
COUNT = f"{G}gke-accelerator-count"
NOT_SPOT = {"key": f"{G}gke-spot", "operator": "NotIn", "values": ["true"]}


def selector(accelerator: str, **changes: Any) -> dict[str, str]:
    return placement.node_selector(pod_plan(Golden(accelerator=accelerator, **changes)))


def unwanted(accelerator: str, **changes: Any) -> list[dict[str, Any]]:
    found = placement.affinity(pod_plan(Golden(accelerator=accelerator, **changes)))
    if not found:
        return []
    (term,) = found["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return list(term["matchExpressions"])


def taints(accelerator: str, **changes: Any) -> list[tuple[str, str]]:
    tolerated = placement.tolerations(pod_plan(Golden(accelerator=accelerator, **changes)))
    assert all(one["effect"] == "NoSchedule" for one in tolerated)
    return [(one["key"], one.get("value", one["operator"])) for one in tolerated]


def test_chips_are_chosen_by_label_and_topology() -> None:
    assert selector("v5e-16") == {f"{G}gke-tpu-accelerator": "tpu-v5-lite-podslice", f"{G}gke-tpu-topology": "4x4"}
    assert selector("h100x8") == {f"{G}gke-accelerator": "nvidia-h100-80gb"}
    assert selector("cpu-4x1") == {}


def test_the_number_of_chips_is_said_where_two_machines_have_the_same_labels() -> None:
    assert selector("v6e-8")[COUNT] == "8" and selector("v6e-8@ct6e-standard-4t")[COUNT] == "4"
    on_gke = [shape for shape in map(resolve, every_name()) if shape.gke_accelerator and shape.platform == "tpu"]
    said = {shape.name for shape in on_gke if COUNT in selector(shape.name)}
    assert said == {"v5e-8", "v6e-8"}


@pytest.mark.parametrize(
    ("accelerator", "pods", "labels"),
    [
        ("v6e-16:spot", {}, {f"{G}gke-spot": "true"}),
        ("v6e-16:flex-start", {}, {f"{G}gke-flex-start": "true"}),
        ("v6e-16:reserved", {}, {}),
        ("v6e-16:on-demand", {}, {}),
        ("v6e-16:queue", {"queue": "tpus"}, {}),
        ("v6e-16:reserved=block", {"reservation": "other"}, {f"{G}reservation-name": "block"}),
        (
            "v6e-16",
            {"reservation": "projects/p/reservations/block"},
            {f"{G}reservation-name": "block", f"{G}reservation-project": "p"},
        ),
        ("v6e-16", {"zones": ("us-east5-b",)}, {placement.ZONE: "us-east5-b"}),
        ("v6e-16:spot", {"node_selector": {f"{G}gke-spot": "false"}}, {f"{G}gke-spot": "false"}),
    ],
)
def test_the_kind_of_capacity_chooses_nodes(accelerator: str, pods: dict[str, Any], labels: dict[str, str]) -> None:
    found = selector(accelerator, pods=pods)
    assert {name: value for name, value in found.items() if name not in selector("v6e-16")} == labels


def test_taints_of_what_was_asked_for_are_tolerated_and_no_others() -> None:
    tpu = ("google.com/tpu", "Exists")
    assert taints("cpu") == [] and taints("v6e-16") == [tpu] and taints("l4") == [("nvidia.com/gpu", "Exists")]
    assert taints("v6e-16:spot") == [tpu, (f"{G}gke-spot", "true")]
    assert taints("v6e-16:flex-start") == [tpu, (f"{G}gke-flex-start", "true")]
    assert taints("v6e-16:queue") == [tpu, (f"{G}gke-queued", "Exists")]
    assert taints("v6e-16", pods={"provisioning_request": "r"}) == [tpu, (f"{G}gke-queued", "Exists")]


@pytest.mark.parametrize(("accelerator", "slices"), [("v6e-8", 2), ("v6e-16", 1), ("v6e-16", 2), ("l4", 1)])
def test_hosts_tolerate_the_taint_of_their_own_pools_and_of_no_others(accelerator: str, slices: int) -> None:
    def own(attempt: int) -> tuple[str, str]:
        return taints(accelerator, slices=slices, attempt=attempt, pods=IN_OWN_POOLS)[-1]

    plan = pod_plan(Golden(accelerator=accelerator, slices=slices, pods=IN_OWN_POOLS))
    for name in plan.hosts.pools:
        assert own(attempt=1) == tuple(taint_of(name).values())
    assert own(attempt=1)[0] == own(attempt=2)[0] and own(attempt=1)[1] != own(attempt=2)[1]
    assert TAINT not in dict(taints(accelerator, slices=slices))


def test_nobody_gets_spot_nodes_unasked_unless_a_queue_chooses() -> None:
    assert unwanted("v6e-16") == unwanted("l4") == unwanted("v6e-16:reserved") == [NOT_SPOT]
    assert unwanted("v6e-16:spot") == unwanted("v6e-16", pods={"queue": "tpus"}) == unwanted("cpu") == []


def test_pools_that_lost_a_host_are_avoided() -> None:
    avoided = {"key": f"{G}gke-nodepool", "operator": "NotIn", "values": ["pool-a", "pool-b"]}
    assert unwanted("v6e-16:spot", avoid=("pool-a", "pool-b")) == [avoided]
    assert unwanted("v6e-16", avoid=("pool-a", "pool-b")) == [avoided, NOT_SPOT]
