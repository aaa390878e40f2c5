"""What a cluster says of a pool comes down to one of six states, whatever it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.cloud.container_v1 import NodePool
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.gcp.pool_errors import Said, Trouble
from prefect_tpu.infra.gcp.pool_facts import CREATE, DELETE, ClusterPools, Operation, Pool
from prefect_tpu.infra.gcp.pool_state import FRESH_SECONDS, PoolState, Stage, state_of
from tests.infra.gcp.pool_wishes import NOW, a_try

TRY = a_try()
NAME = TRY.name(0)
OURS = Pool(name=NAME, status="RUNNING", nodes=4, labels=TRY.labels(NOW - 100, NOW + 100))
MADE = Operation(name="o", kind=CREATE, pool=NAME, is_done=False, began=NOW - 90)
STOCKOUT = Said(canonical="RESOURCE_EXHAUSTED", condition="GCE_STOCKOUT", text="no machines")
FAILED = replace(MADE, is_done=True, ended=NOW - 1, failure=STOCKOUT)
STATUSES = tuple(status.name for status in NodePool.Status)


def state(pool: Pool | None, *operations: Operation, has_topology: bool = False) -> PoolState:
    facts = ClusterPools(pools={pool.name: pool} if pool else {}, operations=operations)
    return state_of(NAME, TRY.owner, facts, NOW, has_topology=has_topology)


@pytest.mark.parametrize(
    ("status", "stage"),
    [
        ("PROVISIONING", Stage.MAKING),
        ("RUNNING", Stage.READY),
        ("RECONCILING", Stage.MAKING),
        ("RUNNING_WITH_ERROR", Stage.BROKEN),
        ("ERROR", Stage.BROKEN),
        ("STOPPING", Stage.LEAVING),
        ("STATUS_UNSPECIFIED", Stage.MAKING),
    ],
)
def test_the_table(status: str, stage: Stage) -> None:
    assert state(replace(OURS, status=status)).stage is stage


def test_the_table_has_every_status_of_google() -> None:
    (mark,) = test_the_table.pytestmark  # type: ignore[attr-defined]
    assert {row[0] for row in mark.args[1]} == set(STATUSES)


def test_nodes_that_come_when_they_are_wanted_do_not_make_a_pool_unready() -> None:
    assert state(replace(OURS, status="RECONCILING", begins_empty=True)).stage is Stage.READY


def test_nothing_is_there() -> None:
    assert state(None) == PoolState(name=NAME, stage=Stage.ABSENT, is_there=False)


def test_what_was_accepted_and_is_not_listed_yet_is_being_made() -> None:
    found = state(None, replace(MADE, said="virtual_machines"))
    assert (found.stage, found.is_there, found.said, found.since) == (Stage.MAKING, False, "virtual_machines", NOW - 90)


def test_what_failed_and_left_nothing_is_broken_for_a_while_and_then_absent() -> None:
    found = state(None, FAILED)
    assert (found.stage, found.is_there) == (Stage.BROKEN, False)
    assert found.failure is not None and found.failure.trouble is Trouble.STOCKOUT
    assert state(None, replace(FAILED, ended=NOW - FRESH_SECONDS)).stage is Stage.ABSENT
    assert state(None, replace(FAILED, ended=None, began=NOW - FRESH_SECONDS)).stage is Stage.ABSENT


def test_what_was_made_and_deleted_since_is_absent() -> None:
    made = replace(MADE, is_done=True, ended=NOW - 50)
    gone = replace(made, kind=DELETE, ended=NOW - 1)
    assert state(None, made, gone).stage is Stage.ABSENT


def test_another_operation_on_the_pool_says_nothing_of_its_making() -> None:
    assert state(None, replace(FAILED, kind=DELETE)).stage is Stage.ABSENT
    assert state(None, replace(FAILED, pool=TRY.name(1))).stage is Stage.ABSENT


@pytest.mark.parametrize("labels", [{}, a_try(output="gs://bucket/other/digits").labels(NOW, NOW)])
@pytest.mark.parametrize("status", STATUSES)
def test_a_pool_of_our_name_with_other_labels_is_somebody_elses(labels: dict[str, str], status: str) -> None:
    found = state(replace(OURS, labels=labels, status=status), FAILED)
    assert found.stage is Stage.FOREIGN
    assert ("of another output" if labels else "nobody") in found.said


def test_why_it_broke_is_told_by_its_conditions_then_by_the_operation_then_by_its_status() -> None:
    denied, topology = Said(canonical="PERMISSION_DENIED", text="no"), Said(text="TPU topology is wrong")
    broken = replace(OURS, status="ERROR", troubles=(denied,), said="Quota 'X' exceeded")

    def why(pool: Pool, *operations: Operation) -> Trouble:
        found = state(pool, *operations).failure
        assert found is not None
        return found.trouble

    assert why(broken, FAILED) is Trouble.PERMISSION
    assert why(replace(broken, troubles=()), FAILED) is Trouble.STOCKOUT
    assert why(replace(broken, troubles=())) is Trouble.QUOTA
    assert why(replace(broken, troubles=(), said="")) is Trouble.NOT_NOW
    assert why(replace(broken, troubles=(Said(text="something"), topology))) is Trouble.TOPOLOGY


@pytest.mark.parametrize("code", ["UNAVAILABLE", "ABORTED", "ALREADY_EXISTS", "INTERNAL", ""])
def test_what_ended_for_no_clear_reason_is_tried_again(code: str) -> None:
    failure = state(None, replace(FAILED, failure=Said(canonical=code, text="?"))).failure
    assert failure is not None and failure.trouble is Trouble.NOT_NOW


def test_one_that_is_leaving_since_it_broke_says_why() -> None:
    leaving = replace(OURS, status="STOPPING")
    assert state(leaving).failure is None
    failure = state(leaving, FAILED).failure
    assert failure is not None and failure.trouble is Trouble.STOCKOUT


def test_how_far_it_is() -> None:
    making = replace(OURS, status="PROVISIONING")
    assert (state(making).said, state(making).since) == ("", NOW - 100)
    assert state(making, replace(MADE, said="three of four")).said == "three of four"
    assert state(replace(OURS, status="RECONCILING")).said == "reconciling"


@given(
    st.sampled_from(STATUSES),
    st.booleans(),
    st.lists(st.sampled_from((MADE, FAILED, replace(FAILED, kind=DELETE), replace(MADE, pool="x"))), max_size=4),
)
def test_a_broken_pool_always_has_its_reason(status: str, is_there: bool, operations: list[Operation]) -> None:
    found = state(replace(OURS, status=status) if is_there else None, *operations)
    assert (found.failure is not None) or found.stage is not Stage.BROKEN
    assert found.is_there == is_there
