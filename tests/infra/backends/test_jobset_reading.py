"""What an object of Kubernetes says is read as it is meant: here, of objects as our own manifests make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from prefect_tpu.infra.backends.jobset_reading import node_labels, read_nodes, read_workload
from prefect_tpu.infra.gcp.pool_names import TAINT

GOLDEN = Path(__file__).parents[1] / "gcp" / "golden"


def jobset(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((GOLDEN / f"{name}.yaml").read_text())
    return found


def node(pool: str, *, is_spot: bool = False) -> dict[str, Any]:
    labels = {"cloud.google.com/gke-nodepool": pool}
    spot = {"cloud.google.com/gke-spot": "true"} if is_spot else {}
    return {"metadata": {"name": "n", "labels": {**labels, **spot}}}


@pytest.mark.parametrize(
    ("golden", "of", "is_kept"),
    [
        ("v6e", node("a"), False),
        ("v6e", node("a", is_spot=True), True),
        ("spot", node("a", is_spot=True), False),
        ("kueue", node("a", is_spot=True), False),  # a queue chooses the kind of its nodes itself
        ("cpu-hosts", node("a", is_spot=True), False),
        ("after-a-lost-pool", node("b"), False),
        ("after-a-lost-pool", node("b", is_spot=True), True),
        ("after-a-lost-pool", node("pool-a"), True),
    ],
)
def test_pods_keep_away_from_spot_and_from_pools_that_lost_a_host(golden: str, of: Any, is_kept: bool) -> None:
    assert read_nodes([of], jobset(golden)).keys() == (set() if is_kept else {"n"})


def tainted(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, Any]:
    return {**node("a"), "spec": {"taints": [{"key": key, "value": value, "effect": effect}]}}


IN_ITS_POOL = jobset("in-a-pool-of-its-own")
(OWN_TAINT,) = (
    one
    for one in IN_ITS_POOL["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["tolerations"]
    if one["key"] == TAINT
)


@pytest.mark.parametrize(
    ("golden", "of", "is_open"),
    [
        ("in-a-pool-of-its-own", tainted(TAINT, OWN_TAINT["value"]), True),
        ("in-a-pool-of-its-own", tainted(TAINT, "another"), False),
        ("in-a-pool-of-its-own", tainted(TAINT, OWN_TAINT["value"], "NoExecute"), False),
        ("in-a-pool-of-its-own", node("a"), True),  # made before pools had it
        ("v6e", tainted(TAINT, OWN_TAINT["value"]), False),
        ("v6e", tainted(TAINT, OWN_TAINT["value"], "PreferNoSchedule"), True),
        ("v6e", tainted("google.com/tpu", "present"), True),
        ("v6e", tainted("cloud.google.com/gke-queued", "true"), False),
        ("queued-provisioning", tainted("cloud.google.com/gke-queued", "true"), True),
        ("one-gpu", tainted("nvidia.com/gpu", "present"), True),
    ],
)
def test_a_node_is_open_to_pods_that_tolerate_its_taints(golden: str, of: Any, is_open: bool) -> None:
    assert read_nodes([of], jobset(golden))["n"].is_open is is_open


def test_one_term_that_does_not_refuse_a_node_is_enough() -> None:
    def term(pool: str) -> dict[str, Any]:
        label = "cloud.google.com/gke-nodepool"
        return {"matchExpressions": [{"key": label, "operator": "NotIn", "values": [pool]}]}

    found = jobset("cpu")
    pod = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    terms = {"nodeSelectorTerms": [term("a"), term("b")]}
    pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert read_nodes([node("a")], found)["n"].pool == "a"


def test_the_selector_of_nodes_is_the_pods_own() -> None:
    spot = "cloud.google.com/gke-spot=true,"
    both = "cloud.google.com/gke-tpu-accelerator=tpu-v6e-slice,cloud.google.com/gke-tpu-topology=4x4"
    assert node_labels(jobset("v6e")) == both and node_labels(jobset("spot")) == spot + both
    assert node_labels(jobset("cpu")) == ""


# -- Kueue -----------------------------------------------------------------------------------------


def workload(name: str, *, queue: str = "lq", priority: int = 0, at: int = 0, state: str = "", **spec: Any) -> Any:
    """state: a condition that holds; without one it has no quota."""
    conditions = [{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "16 more needed"}]
    if state:
        conditions = [{"type": state, "status": "True", "reason": state}]
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:{at:02}Z"},
        "spec": {"queueName": queue, "priority": priority, **spec},
        "status": {"conditions": conditions},
    }


OURS = workload("ours", at=30)


@pytest.mark.parametrize(
    ("other", "position"),
    [
        (OURS, 1),
        (workload("older", at=29), 2),
        (workload("younger", at=31), 1),
        (workload("younger-of-more-weight", at=31, priority=1), 2),
        (workload("older-of-less-weight", at=29, priority=-1), 1),
        (workload("elsewhere", at=29, queue="other"), 1),
        (workload("admitted", at=29, state="QuotaReserved"), 1),
        (workload("over", at=29, state="Finished"), 1),
        (workload("set-aside", at=29, active=False), 1),
    ],
)
def test_the_place_in_a_queue_is_by_weight_and_then_by_age(other: Any, position: int) -> None:
    found = read_workload(OURS, [other])
    assert (found.position, found.pending, found.is_admitted) == (position, "16 more needed", False)


def test_what_has_its_quota_has_no_place_any_more() -> None:
    found = read_workload(workload("ours", at=30, state="QuotaReserved"), [workload("older", at=29)])
    assert found.position is None and found.pending == ""
