"""What Google's client hands out is read as it is meant, also where most of it is missing."""

from __future__ import annotations

from typing import Any

import pytest
from google.cloud.container_v1 import NodePool, Operation

from prefect_tpu.infra.gcp.pool_errors import Said
from prefect_tpu.infra.gcp.pool_facts import CREATE, ClusterPools, read_operation, read_pool, read_time
from tests.infra.gcp.pool_wishes import NOW, a_try

TARGET = "https://container.googleapis.com/v1/projects/42/locations/us-east5/clusters/training"
STARTED, ENDED = "2026-11-28T10:00:00.123456789Z", "2026-11-28T10:05:30Z"


def operation(**changes: Any) -> Operation:
    said = {"name": "operation-1", "operation_type": "CREATE_NODE_POOL", "status": "RUNNING", "start_time": STARTED}
    return Operation(target_link=f"{TARGET}/nodePools/digits-1", **{**said, **changes})


def test_a_pool_of_ours() -> None:
    labels = a_try().labels(NOW, NOW + 60)
    condition = {"code": "GCE_STOCKOUT", "message": "no machines", "canonical_code": 8}
    pool = read_pool(
        NodePool(
            name="digits-2",
            status="ERROR",
            initial_node_count=4,
            status_message="no",
            autoscaling={"enabled": True},
            config={"labels": {**labels, "more": "of it"}},
            conditions=[condition],
        )
    )
    assert (pool.name, pool.status, pool.nodes, pool.said, pool.begins_empty) == ("digits-2", "ERROR", 4, "no", True)
    assert pool.owner is not None and pool.owner.job == "digits"
    assert pool.troubles == (Said(canonical="RESOURCE_EXHAUSTED", condition="GCE_STOCKOUT", text="no machines"),)


def test_a_pool_that_says_next_to_nothing() -> None:
    pool = read_pool(NodePool(name="default-pool"))
    assert (pool.status, pool.owner, pool.troubles) == ("STATUS_UNSPECIFIED", None, ())


def test_a_condition_without_a_code_is_known_by_its_canonical_code() -> None:
    pool = read_pool(NodePool(name="p", conditions=[{"message": "no right", "canonical_code": 7}]))
    assert pool.troubles == (Said(canonical="PERMISSION_DENIED", text="no right"),)


def test_an_operation_under_way_says_how_far_it_is() -> None:
    stages = [{"name": "NETWORK", "status": "DONE"}, {"name": "VIRTUAL_MACHINES", "status": "RUNNING"}]
    read = read_operation(operation(progress={"stages": stages}), "training")
    assert read is not None
    assert (read.kind, read.pool, read.is_done, read.ended, read.failure) == (CREATE, "digits-1", False, None, None)
    assert read.said == "virtual_machines"
    told = read_operation(operation(detail="three of four", progress={"stages": stages}), "training")
    assert told is not None and told.said == "three of four"


def test_done_with_an_error_is_a_failure() -> None:
    failed = operation(
        status="DONE",
        end_time=ENDED,
        error={"code": 8, "message": "no machines"},
        nodepool_conditions=[{"message": "?"}, {"code": "GCE_STOCKOUT", "message": "no machines"}],
    )
    read = read_operation(failed, "training")
    assert read is not None and read.is_done
    assert read.failure == Said(canonical="RESOURCE_EXHAUSTED", condition="GCE_STOCKOUT", text="no machines")
    assert read.ended is not None and round(read.ended - read.began) == 330


def test_done_without_one_is_none() -> None:
    read = read_operation(operation(status="DONE", end_time=ENDED), "training")
    assert read is not None and read.is_done and read.failure is None


@pytest.mark.parametrize("target", [f"{TARGET}-2/nodePools/p", f"{TARGET[:-8]}other", "", "nonsense"])
def test_an_operation_on_another_cluster_is_none_of_this_one(target: str) -> None:
    assert read_operation(Operation(target_link=target), "training") is None


def test_an_operation_on_the_cluster_itself_has_no_pool() -> None:
    read = read_operation(Operation(target_link=TARGET, operation_type="UPGRADE_MASTER"), "training")
    assert read is not None and (read.pool, read.kind) == ("", "UPGRADE_MASTER")


@pytest.mark.parametrize(("text", "seconds"), [("1970-01-01T00:01:00Z", 60.0), ("", None), ("yesterday", None)])
def test_times(text: str, seconds: float | None) -> None:
    assert read_time(text) == seconds


def test_what_keeps_a_cluster_busy_is_what_began_first_and_is_not_done() -> None:
    read = [
        read_operation(operation(name=name, status=status, start_time=f"2026-11-28T10:0{at}:00Z"), "training")
        for name, status, at in (("done", "DONE", 0), ("second", "PENDING", 2), ("first", "ABORTING", 1))
    ]
    facts = ClusterPools(operations=tuple(one for one in read if one is not None))
    assert facts.running is not None and facts.running.name == "first"
    newest = facts.newest("digits-1", CREATE)
    assert newest is not None and newest.name == "second"
    assert facts.newest("digits-2", CREATE) is None
    assert ClusterPools().running is None
