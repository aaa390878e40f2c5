"""Which of the entries that Google lists holds for a place and a family."""

from __future__ import annotations

from math import inf

import pytest
from google.cloud.cloudquotas_v1 import QuotaInfo
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.gcp.quota_limits import Entry, Listing, limit_in, locations_of, read
from prefect_tpu.infra.gcp.quota_table import Quota

FAMILY = Quota(id="family", scope="region", family="CT6E")
ZONE = Quota(id="zone", scope="zone")
HERE, OTHER = "us-east5", "us-west4"


def entry(value: float | None, *locations: str, **dimensions: str) -> Entry:
    return Entry(dimensions=dimensions, locations=locations, value=value)


def listing(*entries: Entry) -> Listing:
    return Listing(metric="compute.googleapis.com/x", entries=entries)


@pytest.mark.parametrize(
    ("entries", "limit"),
    [
        ([entry(16, HERE, region=HERE, tpu_family="CT6E")], 16),
        ([entry(16, HERE, region=HERE, tpu_family="ct6e")], 16),
        ([entry(16, HERE, region=HERE)], 16),  # for all families but those with an entry
        ([entry(16, HERE, OTHER, tpu_family="CT6E")], 16),  # for all regions it is applicable to
        ([entry(0, HERE, OTHER)], 0),  # an unset family: the API says it itself
        ([entry(inf, HERE)], inf),
        ([entry(0, HERE), entry(8, HERE, tpu_family="CT6E")], 8),
        ([entry(8, HERE, tpu_family="CT6E"), entry(4, HERE, region=HERE)], 4),  # the place counts more
        ([entry(8, HERE, tpu_family="CT6E"), entry(32, HERE, region=HERE, tpu_family="CT6E")], 32),
        ([entry(None, HERE, region=HERE, tpu_family="CT6E"), entry(8, HERE)], None),
        ([entry(16, OTHER, region=OTHER, tpu_family="CT6E")], None),
        ([entry(16, HERE, region=HERE, tpu_family="CT3")], None),
        ([entry(16, OTHER)], None),
        ([entry(16, HERE, region=HERE, tpu_family="CT6E", user="somebody")], None),
        ([], None),
    ],
)
def test_the_most_specific_entry_that_holds_counts_and_no_other(entries: list[Entry], limit: float | None) -> None:
    assert limit_in(listing(*entries), FAMILY, HERE) == limit


DIMENSIONS = st.fixed_dictionaries(
    {}, optional={"region": st.sampled_from([HERE, OTHER]), "tpu_family": st.sampled_from(["CT6E", "CT3"])}
)
ENTRIES = st.lists(
    st.builds(
        Entry,
        dimensions=DIMENSIONS,
        locations=st.lists(st.sampled_from([HERE, OTHER]), max_size=2, unique=True).map(tuple),
        value=st.none() | st.integers(0, 64),
    ),
    max_size=5,
)


@given(ENTRIES)
def test_a_limit_is_always_the_value_of_an_entry_that_holds(entries: list[Entry]) -> None:
    found = limit_in(listing(*entries), FAMILY, HERE)
    holding = [
        one.value
        for one in entries
        if one.dimensions.get("tpu_family", "CT6E") == "CT6E"
        and one.dimensions.get("region", HERE) == HERE
        and (HERE in one.locations or "region" in one.dimensions)
    ]
    assert found in holding if holding else found is None


def test_zones_are_those_that_are_listed() -> None:
    listed = listing(entry(0, "us-east5-a", "us-west4-a"), entry(8, "us-east5-b", zone="us-east5-b"))
    assert locations_of(listed, HERE) == ("us-east5-a", "us-east5-b")
    assert limit_in(listed, ZONE, "us-east5-b") == 8 and limit_in(listed, ZONE, "us-east5-c") is None


@pytest.mark.parametrize(
    ("details", "value"),
    [({"value": "16"}, 16), ({"value": "0"}, 0), ({}, 0), (None, None), ({"value": "-1"}, inf)],
)
def test_zero_may_be_left_out_of_details_but_details_may_not(details: dict[str, str] | None, value: float) -> None:
    info = QuotaInfo.from_json(f'{{"dimensionsInfos": [{{{_details(details)} "applicableLocations": ["{HERE}"]}}]}}')
    assert [one.value for one in read(info).entries] == [value]


def _details(details: dict[str, str] | None) -> str:
    return "" if details is None else f'"details": {str(details).replace(chr(39), chr(34))},'


@pytest.mark.parametrize(
    ("info", "fixed"),
    [
        ({"quota_increase_eligibility": {"is_eligible": True}}, ""),
        (
            {"quota_increase_eligibility": {"ineligibility_reason": "NOT_SUPPORTED"}},
            "NOT_SUPPORTED",
        ),
        ({"is_fixed": True}, "its value is fixed"),
        ({}, ""),
    ],
)
def test_whether_more_may_be_asked_for(info: dict[str, object], fixed: str) -> None:
    assert read(QuotaInfo(info)).fixed == fixed
