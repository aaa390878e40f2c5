"""What is due next for an attempt's pools, by what is there alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.gcp.pool_decision import (
    Create,
    Decision,
    Delete,
    Ready,
    Refuse,
    Resize,
    Wait,
    Wanted,
    answer_to,
    decide,
)
from prefect_tpu.infra.gcp.pool_errors import PoolFailure, Said, Trouble
from prefect_tpu.infra.gcp.pool_facts import CREATE, DELETE, ClusterPools, Operation, Pool
from prefect_tpu.infra.gcp.pool_names import Try
from prefect_tpu.infra.gcp.pool_request import PoolWish
from tests.infra.gcp.pool_wishes import NOW, a_try, wanted, wish

ONE, TWO = wanted(), wanted(slices=2)
STOCKOUT = Said(condition="GCE_STOCKOUT", text="no machines.")
DENIED = Said(canonical="PERMISSION_DENIED", text="not you")
BUSY = Operation(name="o", kind="UPGRADE_MASTER", pool="", is_done=False, began=NOW - 200)


def pool(wish: PoolWish, status: str = "RUNNING", *troubles: Said, nodes: int | None = None) -> Pool:
    count = wish.nodes if nodes is None else nodes
    return Pool(name=wish.name, status=status, nodes=count, labels=wish.labels, troubles=troubles)


def of(tried: Try, status: str = "RUNNING") -> Pool:
    """A pool of another try."""
    return Pool(name=tried.name(0), status=status, nodes=1, labels=tried.labels(NOW, NOW + 9))


def due(asked: Wanted, *found: Pool, doing: tuple[Operation, ...] = ()) -> Decision:
    return decide(asked, ClusterPools(pools={one.name: one for one in found}, operations=doing), NOW)


def making(wish: PoolWish, seconds: float = 0.0, said: str = "") -> Operation:
    return Operation(name="o", kind=CREATE, pool=wish.name, is_done=False, began=NOW - seconds, said=said)


def test_pools_are_made_one_after_the_other() -> None:
    first, second = TWO.wishes
    assert due(TWO) == Create(wish=first)
    assert isinstance(due(TWO, pool(first, "PROVISIONING"), doing=(making(first),)), Wait)
    assert due(TWO, pool(first)) == Create(wish=second)
    assert isinstance(due(TWO, pool(first), pool(second, "PROVISIONING"), doing=(making(second),)), Wait)
    assert due(TWO, pool(first), pool(second)) == Ready()


def test_while_one_is_made_it_is_said_which_and_for_how_long() -> None:
    first, second = TWO.wishes
    said = due(TWO, pool(first), pool(second, "PROVISIONING"), doing=(making(second, 200, "virtual_machines"),))
    assert said == Wait(reason=f"node pool {second.name!r} (2 of 2) is being made for 3 min: virtual_machines")
    alone = due(ONE, pool(ONE.wishes[0], "PROVISIONING"), doing=(making(ONE.wishes[0]),))
    assert alone == Wait(reason=f"node pool {ONE.wishes[0].name!r} is being made")


def test_a_busy_cluster_is_waited_for_and_said_what_it_does() -> None:
    assert due(ONE, doing=(BUSY,)) == Wait(
        reason="the cluster takes one change at a time, and is busy (upgrade master) for 3 min"
    )
    other = replace(BUSY, kind=DELETE, pool="theirs", began=NOW)
    assert due(ONE, doing=(other,)) == Wait(
        reason="the cluster takes one change at a time, and is deleting node pool 'theirs'"
    )


def test_a_busy_cluster_does_not_matter_once_all_is_there() -> None:
    assert due(ONE, pool(ONE.wishes[0]), doing=(BUSY,)) == Ready()


@pytest.mark.parametrize("status", ["RUNNING", "ERROR", "PROVISIONING"])
def test_a_pool_that_is_somebody_elses_is_named_and_never_touched(status: str) -> None:
    theirs = Pool(name=ONE.wishes[0].name, status=status, labels={"team": "other"})
    answer = due(ONE, theirs)
    assert isinstance(answer, Refuse)
    assert theirs.name in answer.reason and "left alone" in answer.reason


def test_what_is_left_in_error_goes_before_it_is_made_again_and_says_why() -> None:
    broken = pool(ONE.wishes[0], "ERROR", STOCKOUT)
    waits = Wait(reason="Google has no such machines in us-east5-b now: no machines", is_dry=True)
    assert due(ONE, broken) == Delete(name=broken.name, answer=waits)
    assert due(ONE, broken, doing=(BUSY,)) == waits  # deleted at a later look
    leaving = due(ONE, replace(broken, status="STOPPING"), doing=(BUSY,))
    assert isinstance(leaving, Wait) and not leaving.is_dry


def test_one_that_goes_since_there_was_no_capacity_is_still_dry() -> None:
    failed = Operation(
        name="o", kind=CREATE, pool=ONE.wishes[0].name, is_done=True, began=NOW - 99, ended=NOW - 60, failure=STOCKOUT
    )
    answer = due(ONE, pool(ONE.wishes[0], "STOPPING"), doing=(failed, BUSY))
    assert isinstance(answer, Wait) and answer.is_dry and "no machines" in answer.reason


def test_a_failed_operation_that_left_no_pool_is_told_and_then_tried_again() -> None:
    failed = Operation(name="o", kind=CREATE, pool=ONE.wishes[0].name, is_done=True, began=NOW - 9, failure=STOCKOUT)
    answer = due(ONE, doing=(failed,))
    assert isinstance(answer, Wait) and answer.is_dry
    assert due(ONE, doing=(replace(failed, began=NOW - 99),)) == Create(wish=ONE.wishes[0])


def test_what_waiting_does_not_mend_is_refused_and_its_pool_goes_too() -> None:
    answer = due(ONE, pool(ONE.wishes[0], "ERROR", DENIED))
    assert isinstance(answer, Delete) and isinstance(answer.answer, Refuse)
    assert answer.answer.is_barred and "container.clusters.update" in answer.answer.reason


def test_a_slice_that_was_had_is_kept_while_another_is_lacking() -> None:
    first, second = TWO.wishes
    answer = due(TWO, pool(first), pool(second, "ERROR", STOCKOUT))
    assert isinstance(answer, Delete) and answer.name == second.name


EARLIER, OTHER_OFFER, LATER = a_try(attempt=1), a_try("v5e-16"), a_try(attempt=3)
OTHER_ZONE, OTHER_JOB = a_try(zone="us-east5-a"), a_try(output="gs://bucket/other/digits")


@pytest.mark.parametrize("earlier", [EARLIER, OTHER_OFFER, OTHER_ZONE])
def test_what_the_job_had_before_is_given_back_first(earlier: Try) -> None:
    answer = due(ONE, of(earlier))
    assert isinstance(answer, Delete) and answer.name == earlier.name(0)
    assert isinstance(answer.answer, Wait) and not answer.answer.is_dry
    assert isinstance(due(ONE, of(earlier), doing=(BUSY,)), Wait)
    assert due(ONE, of(earlier, "STOPPING")) == Create(wish=ONE.wishes[0])
    assert due(ONE, of(earlier), pool(ONE.wishes[0]), doing=(BUSY,)) == Ready()


@pytest.mark.parametrize("other", [LATER, OTHER_JOB])
def test_pools_of_a_later_attempt_or_another_job_are_left_alone(other: Try) -> None:
    assert due(ONE, of(other)) == Create(wish=ONE.wishes[0])


def test_a_pool_of_single_hosts_gets_as_many_nodes_as_slices_are_wanted_now() -> None:
    three = wanted("v6e-8", slices=3)
    (asked,) = three.wishes
    assert due(three, pool(asked, nodes=2)) == Resize(wish=asked)
    assert isinstance(due(three, pool(asked, nodes=2), doing=(BUSY,)), Wait)
    assert due(three, pool(asked)) == Ready()


@pytest.mark.parametrize("accelerator", ["v6e-16", "v6e-8:flex-start"])
def test_a_slice_is_never_resized_nor_what_the_autoscaler_sizes(accelerator: str) -> None:
    asked = wanted(accelerator)
    assert due(asked, pool(asked.wishes[0], nodes=1)) == Ready()


@pytest.mark.parametrize("trouble", Trouble)
def test_every_trouble_has_an_answer_with_googles_own_words(trouble: Trouble) -> None:
    answer = answer_to(PoolFailure(trouble=trouble, said="these words."), "pool-1", wish("v6e-16"))
    assert "these words" in answer.reason
    if trouble.is_final:
        assert isinstance(answer, Refuse) and answer.is_barred == (trouble is Trouble.PERMISSION)
    else:
        assert isinstance(answer, Wait) and answer.is_dry == trouble.is_dry


def test_who_may_lack_a_workload_policy_is_told_how_to_make_it() -> None:
    missing = PoolFailure(trouble=Trouble.GONE, said="Not found: policy")
    assert "resource-policies create workload-policy" in answer_to(missing, "p", wish("tpu7x-64")).reason
    assert "workload-policy" not in answer_to(missing, "p", wish("v6e-16")).reason


STATUSES = ("PROVISIONING", "RUNNING", "RECONCILING", "STOPPING", "ERROR")
TRIES = (TWO.tried, EARLIER, OTHER_OFFER, LATER, OTHER_JOB)
POOLS = st.builds(
    lambda tried, index, status, is_ours: Pool(
        name=tried.name(index), status=status, nodes=4, labels=tried.labels(NOW, NOW) if is_ours else {}
    ),
    st.sampled_from(TRIES),
    st.integers(0, 1),
    st.sampled_from(STATUSES),
    st.booleans(),
)
OPERATIONS = st.sampled_from((BUSY, making(TWO.wishes[0]), replace(making(TWO.wishes[1]), is_done=True)))


@given(st.lists(POOLS, max_size=6), st.lists(OPERATIONS, max_size=3))
def test_whatever_is_there_only_our_own_is_changed_and_never_while_the_cluster_is_busy(
    found: list[Pool], doing: list[Operation]
) -> None:
    facts = ClusterPools(pools={one.name: one for one in found}, operations=tuple(doing))
    decision = decide(TWO, facts, NOW)
    if isinstance(decision, Create | Resize | Delete):
        assert facts.running is None
    if isinstance(decision, Create):
        assert decision.wish.name not in facts.pools
    if isinstance(decision, Delete):
        owner = facts.pools[decision.name].owner
        assert owner is not None and owner.owner == TWO.tried.owner and owner.attempt <= TWO.tried.attempt
    if isinstance(decision, Ready):
        assert all(facts.pools[name].status == "RUNNING" for name in TWO.names)
