"""Which time series tell of a quota, and which do not."""

from __future__ import annotations

import pytest

from prefect_tpu.infra.gcp.quota_table import Quota
from prefect_tpu.infra.gcp.quota_usage import Series, usage_filter, used_of

FAMILY = Quota(id="family", scope="region", family="CT6E")
PLAIN = Quota(id="plain", scope="region")


def series(newest: float, **labels: str) -> Series:
    return Series(labels=labels, newest=newest)


@pytest.mark.parametrize(
    ("quota", "found", "used"),
    [
        (PLAIN, [], None),
        (PLAIN, [series(0)], 0),
        (PLAIN, [series(8, limit_name="plain")], 8),
        (PLAIN, [series(8, limit_name="other")], None),
        (PLAIN, [series(8), series(12)], 12),
        (FAMILY, [series(8)], None),
        (FAMILY, [series(8, tpu_family="CT3")], None),
        (FAMILY, [series(8, tpu_family="ct6e"), series(32, tpu_family="CT3")], 8),
    ],
)
def test_only_a_series_of_the_quota_and_the_family_tells(quota: Quota, found: list[Series], used: float | None) -> None:
    assert used_of(found, quota) == used


def test_the_metric_is_the_quotas_own_with_its_usage() -> None:
    assert usage_filter("compute.googleapis.com/tpu_v5p", "us-east5") == (
        'metric.type = "compute.googleapis.com/quota/tpu_v5p/usage" AND'
        ' resource.type = "compute.googleapis.com/Location" AND resource.labels.location = "us-east5"'
    )
