"""What an object of Kubernetes says is read as it is meant: here, of objects as our own manifests make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from prefect_tpu.infra.backends.jobset_reading import node_labels, read_nodes

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
