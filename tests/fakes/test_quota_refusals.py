"""What Google refuses of a question for quotas is refused by the fakes, asked by Google's own clients."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.cloudquotas_v1 import CloudQuotasClient
from google.cloud.cloudquotas_v1.services.cloud_quotas.transports import CloudQuotasRestTransport
from google.cloud.monitoring_v3 import MetricServiceClient
from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcTransport

if TYPE_CHECKING:
    from cloud_monitoring import Monitoring
    from cloud_quotas import CloudQuotas

FAMILY = "TPUS-PER-TPU-FAMILY-per-project-region"
COMPUTE, TPU_API = "compute.googleapis.com", "tpu.googleapis.com"
USAGE = 'metric.type = "compute.googleapis.com/quota/tpus_per_tpu_family/usage"'


def info(quotas: CloudQuotas, quota: str, service: str = COMPUTE, location: str = "global") -> Any:
    host = urlsplit(quotas.url).netloc
    transport = CloudQuotasRestTransport(host=host, credentials=AnonymousCredentials(), url_scheme="http")
    with CloudQuotasClient(transport=transport) as client:
        name = f"projects/research/locations/{location}/services/{service}/quotaInfos/{quota}"
        return client.get_quota_info(name=name, retry=None)


def series(monitoring: Monitoring, filter: str, **changes: Any) -> list[Any]:
    now = int(time.time())
    interval = {"start_time": {"seconds": now - 600}, "end_time": {"seconds": now}}
    request = {"name": "projects/research", "filter": filter, "interval": interval, **changes}
    channel = grpc.insecure_channel(urlsplit(monitoring.url).netloc)
    with MetricServiceClient(transport=MetricServiceGrpcTransport(channel=channel)) as client:
        return list(client.list_time_series(request, retry=None, timeout=10))


@pytest.mark.parametrize(
    ("quota", "service"),
    [
        ("TPU-V6E-per-project-region", COMPUTE),
        ("TPU-V6E-per-project-zone", COMPUTE),
        (FAMILY, TPU_API),  # GKE's TPUs draw on Compute Engine
        ("PREEMPTIBLE-TPU-TPU7X-per-project-region", COMPUTE),
    ],
)
def test_a_quota_that_nobody_saw_is_not_there(google_quotas: CloudQuotas, quota: str, service: str) -> None:
    with pytest.raises(exceptions.NotFound):
        info(google_quotas, quota, service)


def test_quotas_lie_in_no_region(google_quotas: CloudQuotas) -> None:
    with pytest.raises(exceptions.BadRequest):
        info(google_quotas, FAMILY, location="us-east5")


@pytest.mark.parametrize(
    ("quota", "value"),
    [(FAMILY, 0), ("PREEMPTIBLE-TPU-V6E-per-project-region", 1536), ("PREEMPTIBLE-TPU-V6E-per-project-zone", None)],
)
def test_what_there_is_where_nobody_granted_any(google_quotas: CloudQuotas, quota: str, value: int | None) -> None:
    values = [entry.details.value for entry in info(google_quotas, quota).dimensions_infos]
    assert values == ([] if value is None else [value])


def test_a_place_stands_with_the_entry_that_holds_there(google_quotas: CloudQuotas) -> None:
    google_quotas.grant(FAMILY, 32, region="us-east5", tpu_family="CT6E")
    google_quotas.grant(FAMILY, 8, tpu_family="CT6E")
    first, second, common = info(google_quotas, FAMILY).dimensions_infos
    assert (dict(first.dimensions), list(first.applicable_locations)) == (
        {"region": "us-east5", "tpu_family": "CT6E"},
        ["us-east5"],
    )
    assert dict(second.dimensions) == {"tpu_family": "CT6E"} and "us-east5" not in second.applicable_locations
    assert not common.dimensions and "us-east5" in common.applicable_locations


@pytest.mark.parametrize(
    ("state", "reason"), [("denied", "IAM_PERMISSION_DENIED"), ("switched_off", "SERVICE_DISABLED")]
)
def test_a_right_and_a_switch_are_told_apart_by_their_reasons(
    google_quotas: CloudQuotas, google_usage: Monitoring, state: str, reason: str
) -> None:
    setattr(google_quotas, state, True)
    setattr(google_usage, state, True)
    with pytest.raises(exceptions.Forbidden) as by_rest:
        info(google_quotas, FAMILY)
    with pytest.raises(exceptions.Forbidden) as by_grpc:
        series(google_usage, USAGE)
    assert by_rest.value.reason == by_grpc.value.reason == reason


@pytest.mark.parametrize(
    ("filter", "changes"),
    [
        ('resource.type = "compute.googleapis.com/Location"', {}),
        (f'{USAGE} OR resource.type = "x"', {}),
        (f"{USAGE} AND {USAGE}", {}),
        (f'{USAGE} AND project = "research"', {}),
        ("", {}),
        (USAGE, {"interval": {}}),
        (USAGE, {"order_by": "value"}),
    ],
)
def test_a_filter_names_one_metric_and_an_interval_has_an_end(
    google_usage: Monitoring, filter: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(exceptions.InvalidArgument):
        series(google_usage, filter, **changes)


def test_a_metric_that_nobody_writes_is_not_there(google_usage: Monitoring) -> None:
    with pytest.raises(exceptions.NotFound):
        series(google_usage, USAGE.replace("tpus_per_tpu_family", "tpu_v6e"))


@pytest.mark.parametrize(
    ("term", "count"),
    [
        ('resource.labels.location = "us-east5"', 1),
        ('resource.labels.location = "us-west4"', 0),
        ('resource.type = "gce_instance"', 0),
        ('metric.labels.tpu_family = "CT6E"', 1),
        ('metric.labels.tpu_family = "CT3"', 0),
        ('metric.labels.limit_name = "other"', 0),
    ],
)
def test_every_term_of_a_filter_counts(google_usage: Monitoring, term: str, count: int) -> None:
    google_usage.use(FAMILY, "us-east5", (8, 60.0), tpu_family="CT6E")
    assert len(series(google_usage, f"{USAGE} AND {term}")) == count


def test_points_are_those_of_the_interval_the_newest_first(google_usage: Monitoring) -> None:
    google_usage.use(FAMILY, "us-east5", (1, 300.0), (2, 30.0), (3, 7_200.0), tpu_family="CT6E")
    google_usage.use(FAMILY, "us-east5", (4, 7_200.0), tpu_family="CT3")
    (found,) = series(google_usage, USAGE)
    assert [point.value.int64_value for point in found.points] == [2, 1]


def test_nothing_is_granted_that_google_has_not(google_quotas: CloudQuotas) -> None:
    with pytest.raises(AssertionError, match="tpu_family"):
        google_quotas.grant("TPU-V5P-per-project-region", 8, tpu_family="CT6E")
