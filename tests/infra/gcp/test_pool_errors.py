"""What Google says of a pool that it did not make: a test for each row of the tables, and each of the facts."""

from __future__ import annotations

import pytest
from google.cloud.container_v1 import StatusCondition
from google.rpc.code_pb2 import Code

from prefect_tpu.infra.gcp import pool_errors
from prefect_tpu.infra.gcp.pool_errors import CANONICAL, CODES, CONDITIONS, OPEN_CODES, TEXTS, Said, Trouble, trouble_of

QUOTA = "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: {} in region us-east5."


@pytest.mark.parametrize(("code", "trouble"), CONDITIONS.items())
def test_a_condition_says_one_thing(code: str, trouble: Trouble) -> None:
    said = Said(condition=code, canonical="INTERNAL", text="lack of capacity, incompatible operation, TPU topology")
    assert trouble_of(said) is trouble


@pytest.mark.parametrize(("code", "trouble"), CODES.items())
def test_a_code_that_says_one_thing_is_believed_whatever_the_words(code: str, trouble: Trouble) -> None:
    assert trouble_of(Said(canonical=code, text="lack of capacity")) is trouble


@pytest.mark.parametrize(("code", "trouble"), OPEN_CODES.items())
def test_a_code_under_which_several_things_are_said_counts_where_words_say_nothing(code: str, trouble: Trouble) -> None:
    assert trouble_of(Said(canonical=code, text="no idea")) is trouble


@pytest.mark.parametrize(("words", "trouble"), TEXTS)
@pytest.mark.parametrize("code", OPEN_CODES)
def test_words_decide_under_such_a_code(words: str, trouble: Trouble, code: str) -> None:
    assert trouble_of(Said(canonical=code, text=f"Google says: {words}, and more.")) is trouble


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (Said(text="[ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS]: no"), Trouble.STOCKOUT),
        (Said(canonical="INTERNAL", text="... due to lack of capacity ..."), Trouble.STOCKOUT),
        (Said(text="The zone does not have enough resources available to fulfill request"), Trouble.STOCKOUT),
        (Said(text="The zone does not have enough resources available to fulfill the request"), Trouble.STOCKOUT),
        (Said(canonical="RESOURCE_EXHAUSTED", text=QUOTA.format("16.0")), Trouble.QUOTA),
        (Said(canonical="RESOURCE_EXHAUSTED", text=QUOTA.format("0.0")), Trouble.NO_QUOTA),
        (Said(canonical="PERMISSION_DENIED", text="Insufficient regional quota to satisfy request"), Trouble.QUOTA),
        (
            Said(text="Insufficient regional quota: project has a quota of '0.0' with '0.0' available."),
            Trouble.NO_QUOTA,
        ),
        (
            Said(text="Insufficient regional quota: project has a quota of '16.0' with '0.0' available."),
            Trouble.QUOTA,
        ),
        (Said(condition="GCE_QUOTA_EXCEEDED", text=QUOTA.format("0.0")), Trouble.NO_QUOTA),
        (Said(condition="GCE_QUOTA_EXCEEDED", text="Quota 'TPUS' exceeded. Limit: 0.0."), Trouble.NO_QUOTA),
        (Said(condition="GCE_QUOTA_EXCEEDED", text=QUOTA.format("0.5")), Trouble.QUOTA),
        (Said(condition="GCE_QUOTA_EXCEEDED", text=QUOTA.format("10")), Trouble.QUOTA),
        (
            Said(canonical="FAILED_PRECONDITION", text="Cluster is running incompatible operation operation-1."),
            Trouble.BUSY,
        ),
        (Said(canonical="FAILED_PRECONDITION", text="Cluster is in state PROVISIONING."), Trouble.NOT_NOW),
        (
            Said(
                canonical="INVALID_ARGUMENT", text="The maintenance interval is incorrect for the requested resources"
            ),
            Trouble.INVALID,
        ),
        (
            Said(canonical="INVALID_ARGUMENT", text="TPU topology can't be specified with single-host TPU slice pool"),
            Trouble.TOPOLOGY,
        ),
        (Said(canonical="RESOURCE_EXHAUSTED", text="Too many requests.", is_answer=True), Trouble.BUSY),
        (
            Said(canonical="RESOURCE_EXHAUSTED", text="Requested resource is exhausted", is_answer=True),
            Trouble.STOCKOUT,
        ),
        (Said(canonical="RESOURCE_EXHAUSTED", text="no machines"), Trouble.STOCKOUT),
        (Said(), Trouble.AWAY),
    ],
)
def test_the_facts(said: Said, trouble: Trouble) -> None:
    assert trouble_of(said) is trouble


def test_what_is_invalid_is_the_topology_where_one_was_asked_for_and_nothing_else_is_said() -> None:
    refused = Said(canonical="INVALID_ARGUMENT", text="Bad request.", is_answer=True)
    assert trouble_of(refused, has_topology=True) is Trouble.TOPOLOGY
    assert trouble_of(refused, has_topology=False) is Trouble.INVALID
    interval = Said(canonical="INVALID_ARGUMENT", text="… is incorrect for the requested resources", is_answer=True)
    assert trouble_of(interval, has_topology=True) is Trouble.INVALID


def test_every_code_that_google_has_is_known() -> None:
    assert list(CANONICAL) == [name for name, _ in sorted(Code.items(), key=lambda item: item[1])]
    assert set(CODES) | set(OPEN_CODES) == set(CANONICAL) - {"OK"}
    assert set(CODES) & set(OPEN_CODES) == set()
    known = {code.name for code in StatusCondition.Code}
    assert set(CONDITIONS) <= known
    assert known - set(CONDITIONS) == {"UNKNOWN", "SET_BY_OPERATOR", "CA_EXPIRING"}  # which keep no pool from working


def test_each_trouble_is_explained() -> None:
    assert all(trouble.name in (pool_errors.__doc__ or "") for trouble in Trouble)


@pytest.mark.parametrize("trouble", Trouble)
def test_what_waiting_does_not_mend_is_never_dry(trouble: Trouble) -> None:
    assert not (trouble.is_final and trouble.is_dry)
