"""For every accelerator, however it is paid for: pool, nodes and pods agree with each other, and Google takes it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from container_machines import find
from taints import is_tolerated

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp import machine_resources
from prefect_tpu.infra.gcp.pool_names import TAINT
from prefect_tpu.infra.gcp.pool_request import node_pool
from tests.infra.gcp.every_accelerator import CAPACITIES, Wanted, names, wanted

_UNITS = {"": 1.0, "m": 1e-3, "M": 1e6, "G": 1e9, "Mi": 2.0**20, "Gi": 2.0**30}
_EVERYWHERE = pytest.mark.parametrize("capacity", CAPACITIES, ids=lambda capacity: capacity or "nothing said")


@_EVERYWHERE
def test_google_takes_the_pool_that_is_asked_for(capacity: str) -> None:
    refused = {one.accelerator: one.refusal for one in wanted(capacity)}
    assert {name: said for name, said in refused.items() if said} == {}


@_EVERYWHERE
def test_the_pool_has_the_hosts_and_the_nodes_have_the_chips(capacity: str) -> None:
    wrong = []
    for one in wanted(capacity):
        most = max(one.pool.initial_node_count, one.pool.autoscaling.max_node_count)
        chips = int(one.node["status"]["allocatable"][_resource(one)])
        if (most, chips) != (one.shape.hosts, one.shape.chips_per_host) or most != one.slice["completions"]:
            wrong.append((one.accelerator, most, chips))
    assert wrong == []


def _resource(one: Wanted) -> str:
    return {"tpu": "google.com/tpu", "gpu": "nvidia.com/gpu"}[one.shape.platform]


@_EVERYWHERE
def test_the_nodes_take_the_pods(capacity: str) -> None:
    found = {one.accelerator: obstacles(one.pod["spec"], one.node) for one in wanted(capacity)}
    assert {name: said for name, said in found.items() if said} == {}


def test_on_demand_is_what_is_had_where_nothing_is_said() -> None:
    said, unsaid = Wanted("v6e-16:on-demand"), Wanted("v6e-16")
    assert node_pool(replace(said.wish, name=unsaid.wish.name, labels=unsaid.wish.labels)) == node_pool(unsaid.wish)


def test_no_accelerator_is_left_out() -> None:
    """Of the table, all but those that Google has no machines of: v2, and this machine itself."""
    tried = {one.accelerator for one in wanted("")}
    assert {name for name in names() if name not in tried} == {
        name for name in names() if resolve(name).machine_type is None
    }
    assert len(tried) > 300
    flexible = {one.shape.generation for one in wanted("flex-start")}
    assert flexible == {one.shape.generation for one in wanted("")} - {"v3", "v4"}


def test_nodes_of_another_slice_do_not_take_the_pods() -> None:
    """Labels alone tell slices apart: without pools of their own, jobs find the right ones in a cluster of many."""
    all_of_them = [one for one in wanted("") if one.shape.platform == "tpu"]
    nodes = {one.shape.name: one.node["metadata"]["labels"] for one in all_of_them}
    for one in all_of_them:
        asked = dict(one.pod["spec"]["nodeSelector"])
        del asked["cloud.google.com/gke-nodepool"]
        taken = {name for name, labels in nodes.items() if asked.items() <= labels.items()}
        assert taken == {one.shape.name}


@_EVERYWHERE
def test_the_nodes_of_one_job_take_nobody_else(capacity: str) -> None:
    """Also not the pods of a job that has pools of its own, were they to choose by chips alone."""
    for one in wanted(capacity):
        other = Wanted(one.accelerator, job="other").pod["spec"]
        anywhere = {**other, "nodeSelector": {}}
        assert obstacles(anywhere, one.node) == [f"taint {TAINT}"], one.accelerator


def test_machines_have_what_hosts_ask_for_by_googles_numbers() -> None:
    for one in wanted(""):
        machine = find(str(one.shape.machine_type))
        asked = machine_resources.room(one.shape.machine_type)
        assert machine is not None
        if asked:
            assert float(asked["cpu"]) < machine.cpus and amount(asked["memory"]) < machine.memory_gb * 1e9


def obstacles(pod: dict[str, Any], node: dict[str, Any]) -> list[str]:
    """What keeps a pod from a node, as the scheduler looks at it."""
    labels, free = node["metadata"]["labels"], node["status"]["allocatable"]
    tolerations = pod.get("tolerations", [])
    found = [f"label {key}" for key, value in pod["nodeSelector"].items() if labels.get(key) != value]
    found += [f"not {one['key']}" for one in _unwanted(pod) if labels.get(one["key"]) in one["values"]]
    found += [f"taint {taint['key']}" for taint in node["spec"]["taints"] if not is_tolerated(taint, tolerations)]
    (main,) = pod["containers"]
    asked = main.get("resources", {}).get("requests", {})
    return found + [f"too little {name}" for name, wish in asked.items() if amount(wish) > amount(free.get(name, "0"))]


def _unwanted(pod: dict[str, Any]) -> list[dict[str, Any]]:
    if "affinity" not in pod:
        return []
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = required["nodeSelectorTerms"]
    assert all(one["operator"] == "NotIn" for one in term["matchExpressions"])
    return list(term["matchExpressions"])


def amount(quantity: str) -> float:
    """A Kubernetes quantity as a number."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", quantity).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]
