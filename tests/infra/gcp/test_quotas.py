"""Whether Google Cloud allows a slice, asked of the fakes by Google's own clients: a row of what is known, a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp.quotas import Need, google_rulings
from prefect_tpu.infra.policy.quota import Fit, Ruling, is_hopeless, together

if TYPE_CHECKING:
    from cloud_monitoring import Monitoring
    from cloud_quotas import CloudQuotas

FAMILY = "TPUS-PER-TPU-FAMILY-per-project-region"
SPOT_REGION, SPOT_ZONE = "PREEMPTIBLE-TPU-V6E-per-project-region", "PREEMPTIBLE-TPU-V6E-per-project-zone"
HERE, ZONE = "us-east5", "us-east5-b"


def ask(name: str, **changes: Any) -> tuple[Ruling, ...]:
    shape = resolve(name)
    kind = (shape.capacity or "on-demand").partition("=")[0]
    said: dict[str, Any] = {"chips": shape.chips, "capacity": kind, "project": "research", "location": ZONE, **changes}
    return anyio.run(google_rulings, Need(shape=shape, **said))


def one(name: str, **changes: Any) -> Ruling:
    (found,) = ask(name, **changes)
    return found


@pytest.fixture
def granted(google_quotas: CloudQuotas, google_usage: Monitoring) -> CloudQuotas:
    """32 chips of v6e in one region, of which 8 are used."""
    google_quotas.grant(FAMILY, 32, region=HERE, tpu_family="CT6E")
    google_usage.use(FAMILY, HERE, (8, 90.0), tpu_family="CT6E")
    return google_quotas


# Compute Engine's quota counts, in chips, and none where a reservation is used


def test_it_fits_with_its_numbers(granted: CloudQuotas) -> None:
    found = one("v6e-16")
    said = f"quota {FAMILY} for CT6E of project research in us-east5: needs 16 chips, has 24 of 32 (8 used)"
    assert str(found) == f"fits: {said}."
    assert granted.asked == [
        f"/v1/projects/research/locations/global/services/compute.googleapis.com/quotaInfos/{FAMILY}"
    ]
    assert granted.authorized == [None]


@pytest.mark.parametrize(("name", "chips"), [("v5p-32", 16), ("v5e-16", 16), ("v4-16", 8), ("tpu7x-16", 8)])
def test_a_need_is_counted_in_chips_whatever_the_name_counts(
    google_quotas: CloudQuotas, google_usage: Monitoring, name: str, chips: int
) -> None:
    assert all(f"needs {chips} chips, the limit is 0" in found.said for found in ask(name))


def test_two_slices_need_twice_as_much(granted: CloudQuotas) -> None:
    found = one("v6e-16", chips=32)
    assert (found.fit, found.is_for_good) == (Fit.DOES_NOT, False)
    assert "needs 32 chips, has 24 of 32 (8 used)" in found.said and "--preferred-value 40 " in found.advice


@pytest.mark.parametrize("name", ["v6e-16:reserved", "v6e-16:reserved=ours", "tpu7-128:reserved"])
def test_a_reservation_needs_none(google_quotas: CloudQuotas, name: str) -> None:
    assert one(name).fit is Fit.FITS and google_quotas.asked == []


# Which quota, with which dimensions


def test_a_family_that_was_never_granted_has_the_zero_that_google_says(granted: CloudQuotas) -> None:
    found = one("v3-32")
    assert found.fit is Fit.DOES_NOT and found.is_for_good
    assert f"{FAMILY} for CT3P of project research in us-east5: needs 16 chips, the limit is 0" in found.said
    assert found.advice == (
        "Ask for more: gcloud quotas preferences create --service compute.googleapis.com --project research --quota-id"
        f" {FAMILY} --dimensions region=us-east5,tpu_family=CT3P --preferred-value 16 --email YOUR_ADDRESS"
    )


@pytest.mark.parametrize("writes_zeros", [True, False])
def test_a_zero_is_one_whether_it_is_written_or_left_out(granted: CloudQuotas, writes_zeros: bool) -> None:
    granted.writes_zeros = writes_zeros
    assert one("v6e-16", location="us-west4-a").said.endswith("in us-west4: needs 16 chips, the limit is 0")


def test_other_regions_and_other_projects_are_others(granted: CloudQuotas, google_usage: Monitoring) -> None:
    google_usage.use(FAMILY, "us-west4", (32, 60.0), tpu_family="CT6E")
    google_usage.use(FAMILY, HERE, (32, 60.0), tpu_family="CT6E", project="other")
    google_usage.use(FAMILY, HERE, (32, 60.0), tpu_family="CT3")
    assert one("v6e-16").fit is Fit.FITS
    assert one("v6e-16", location=HERE).fit is Fit.FITS  # a regional cluster: this quota counts by region
    assert one("v6e-16", location="us-west4-a").fit is Fit.DOES_NOT
    assert one("v6e-16", project="other").fit is Fit.DOES_NOT


def test_the_zone_of_an_offer_counts_more_than_where_its_cluster_is(granted: CloudQuotas) -> None:
    assert one("v6e-16", location="us-west4", zone=ZONE).fit is Fit.FITS


def test_spot_has_a_quota_of_its_own(google_quotas: CloudQuotas, google_usage: Monitoring) -> None:
    google_usage.use(SPOT_REGION, HERE, (1000, 30.0))
    found = one("v6e-256:spot")  # the one by zone has no value at all, so it does not count
    assert found.fit is Fit.FITS and "has 536 of 1536 (1000 used)" in found.said


@pytest.mark.parametrize(("limit", "is_for_good"), [(0, False), (8, True)])
def test_spot_without_any_quota_of_its_own_may_take_of_the_standard_one(
    google_quotas: CloudQuotas, limit: int, is_for_good: bool
) -> None:
    google_quotas.grant(SPOT_REGION, limit, region=HERE)
    found = one("v6e-16:spot")
    assert (found.fit, found.is_for_good) == (Fit.DOES_NOT, is_for_good)
    assert found.said.endswith("is not known of TPUs") is not is_for_good


@pytest.mark.parametrize(("region", "zone", "fits"), [(64, 64, True), (0, 64, False), (64, 0, False), (0, 0, False)])
def test_region_and_zone_both_count(
    google_quotas: CloudQuotas, google_usage: Monitoring, region: int, zone: int, fits: bool
) -> None:
    for name, limit, place in (("region", region, {"region": HERE}), ("zone", zone, {"zone": ZONE})):
        google_quotas.grant(f"TPU-V5P-per-project-{name}", limit, **place)
        google_usage.use(f"TPU-V5P-per-project-{name}", next(iter(place.values())), (0, 60.0))
    found = ask("v5p-32")
    assert len(found) == 2 and together(found) is (Fit.FITS if fits else Fit.DOES_NOT)
    assert is_hopeless(found) is not fits


def test_without_a_zone_a_quota_by_zone_only_says_no_where_all_zones_do(google_quotas: CloudQuotas) -> None:
    quota = "PREEMPTIBLE-TPU-V5P-per-project-zone"
    found = one("v5p-32:spot", location=HERE)
    assert found.fit is Fit.DOES_NOT and f"{quota} of project research in every zone of us-east5" in found.said
    google_quotas.grant(quota, 8, zone="us-east5-a")
    assert "the limit is 8" in one("v5p-32:spot", location=HERE).said
    google_quotas.grant(quota, 16, zone="us-east5-a")
    found = one("v5p-32:spot", location=HERE)
    assert found.fit is Fit.CANNOT_TELL and found.advice == "Name a zone."


# Flex-start takes of the preemptible quota, and of the standard one where there is too little


@pytest.mark.parametrize("capacity", ["flex-start", "queue"])
def test_flex_start_has_two_ways(granted: CloudQuotas, google_usage: Monitoring, capacity: str) -> None:
    google_usage.use(SPOT_REGION, HERE, (0, 60.0))
    assert SPOT_REGION in one(f"v6e-16:{capacity}").said
    granted.grant(SPOT_REGION, 4, region=HERE)
    found = one(f"v6e-16:{capacity}")
    assert found.fit is Fit.FITS and FAMILY in found.said
    granted.grant(FAMILY, 8, region=HERE, tpu_family="CT6E")
    assert one(f"v6e-16:{capacity}").is_for_good


# What is not said is not known


def test_without_a_point_the_use_is_not_zero(google_quotas: CloudQuotas, google_usage: Monitoring) -> None:
    google_quotas.grant(FAMILY, 16, region=HERE, tpu_family="CT6E")
    for points in ([], [(0, 7_200.0)]):  # none, and one of two hours ago
        google_usage.use(FAMILY, HERE, *points, tpu_family="CT6E")
        found = one("v6e-16")
        assert found.fit is Fit.CANNOT_TELL
        assert "the limit is 16; how much is used is not known (Cloud Monitoring has no point of it)" in found.said


def test_the_newest_point_counts(granted: CloudQuotas, google_usage: Monitoring) -> None:
    google_usage.use(FAMILY, HERE, (24, 30.0), (0, 400.0), tpu_family="CT6E")
    assert "has 8 of 32 (24 used)" in one("v6e-16").said


def test_series_come_in_pages(granted: CloudQuotas, google_usage: Monitoring) -> None:
    google_usage.page = 1
    for family in ("CT3", "CT3P", "tpu7x"):
        google_usage.use(FAMILY, HERE, (1, 30.0), tpu_family=family)
    granted.grant(FAMILY, 16, region=HERE, tpu_family="tpu7x")
    assert "has 15 of 16 (1 used)" in one("tpu7x-16").said
    assert len(google_usage.asked) == 4


def test_a_quota_without_a_limit_needs_no_use(google_quotas: CloudQuotas) -> None:
    google_quotas.grant(FAMILY, -1, region=HERE, tpu_family="CT6E")
    assert "there is no limit" in one("v6e-256").said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tpu7-128", "which quota counts for tpu7 as on-demand is not known here"),
        ("tpu7x-128:spot", "which quota counts for tpu7x as spot is not known here"),
        ("h100x8", "quotas of h100x8 are not looked at"),
    ],
)
def test_what_nobody_saw_at_google_is_not_guessed(google_quotas: CloudQuotas, name: str, said: str) -> None:
    found = one(name)
    assert (found.fit, found.said) == (Fit.CANNOT_TELL, said)
    assert "console.cloud.google.com/iam-admin/quotas?project=research" in found.advice
    assert google_quotas.asked == []


def test_a_quota_that_google_does_not_know_is_said(google_quotas: CloudQuotas) -> None:
    google_quotas.forgotten.add(FAMILY)
    assert one("v6e-16").said == f"Google knows no quota {FAMILY} in project research"


def test_a_place_without_an_entry_is_not_known(granted: CloudQuotas) -> None:
    found = one("v6e-16", location="mars-north1-a")
    assert found.fit is Fit.CANNOT_TELL and "in mars-north1: Google gives no value of it" in found.said


def test_more_that_may_not_be_asked_for(granted: CloudQuotas) -> None:
    granted.fixed = "NO_VALID_BILLING_ACCOUNT"
    found = one("v6e-64")
    assert found.fit is Fit.DOES_NOT
    assert found.advice.startswith("Google takes no request for more of it (NO_VALID_BILLING_ACCOUNT).")


# What goes wrong on the way


@pytest.mark.parametrize(
    ("trouble", "said", "advice"),
    [
        ({"denied": True}, "no permission to ask Cloud Quotas of project research", "Ask for roles/cloudquotas.viewer"),
        (
            {"switched_off": True},
            "Cloud Quotas is switched off in project research",
            "gcloud services enable cloudquotas.googleapis.com --project research",
        ),
        ({"trouble": "away"}, "Cloud Quotas cannot be reached (ConnectionError)", "look at the network"),
        ({"trouble": "busy"}, "Cloud Quotas cannot be reached (UNAVAILABLE", "Ask again"),
        ({"trouble": "html"}, "something else than Cloud Quotas answered", "Look for a proxy"),
    ],
)
def test_limits_that_google_does_not_tell(
    granted: CloudQuotas, trouble: dict[str, Any], said: str, advice: str
) -> None:
    for name, value in trouble.items():
        setattr(granted, name, value)
    found = one("v6e-16", limit_seconds=1.0)
    assert found.fit is Fit.CANNOT_TELL and said in found.said and advice in found.advice


@pytest.mark.parametrize(
    ("trouble", "said", "advice"),
    [
        ("denied", "no permission to ask Cloud Monitoring of project research", "Ask for roles/monitoring.viewer"),
        ("switched_off", "Cloud Monitoring is switched off", "gcloud services enable monitoring.googleapis.com"),
        ("away", "Cloud Monitoring cannot be reached (UNAVAILABLE", "Ask again"),
    ],
)
def test_use_that_google_does_not_tell_leaves_the_limit(
    granted: CloudQuotas, google_usage: Monitoring, trouble: str, said: str, advice: str
) -> None:
    setattr(google_usage, trouble, True)
    found = one("v6e-16", use_seconds=1.0)
    assert found.fit is Fit.CANNOT_TELL and advice in found.advice
    assert "needs 16 chips, the limit is 32; how much is used is not known" in found.said and said in found.said
    assert one("v6e-64", use_seconds=1.0).is_for_good  # no use of it could make that fit


def test_silence_is_not_waited_for(granted: CloudQuotas, google_usage: Monitoring) -> None:
    with google_usage.silent():
        assert "(Cloud Monitoring did not answer in time)" in one("v6e-16", use_seconds=0.2).said
    with granted.silent():
        assert "Cloud Quotas did not answer in time" in one("v6e-16", limit_seconds=0.2).said


def test_no_credentials_for_the_real_google(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/credentials.json")
    found = one("v6e-16")
    assert found.fit is Fit.CANNOT_TELL and "there are no Google credentials" in found.said


@given(
    limit=st.none() | st.integers(0, 32), used=st.none() | st.integers(0, 32), trouble=st.sampled_from(["", "x", "y"])
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_nothing_fits_by_what_nobody_said(
    google_quotas: CloudQuotas,
    google_usage: Monitoring,
    limit: int | None,
    used: int | None,
    trouble: str,
) -> None:
    """Each example has a project of its own, so that nothing is known of it but this."""
    project = f"p{len(google_quotas.asked)}"
    if limit is not None:
        google_quotas.grant(FAMILY, limit, project=project, region=HERE, tpu_family="CT6E")
    if used is not None:
        google_usage.use(FAMILY, HERE, (used, 60.0), project=project, tpu_family="CT6E")
    google_quotas.denied, google_usage.denied = trouble == "x", trouble == "y"
    found = one("v6e-16", project=project)
    known = not trouble and limit is not None and used is not None
    assert (found.fit is Fit.FITS) == (known and (limit or 0) - (used or 0) >= 16)
    assert not found.is_for_good or (trouble != "x" and (limit or 0) < 16)
