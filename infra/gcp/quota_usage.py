"""How much of a quota is used? Cloud Monitoring has it as a time series; where there is none, nobody knows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.gcp.google_api import MONITORING, Address, address_of, credentials_for
from prefect_tpu.infra.gcp.quota_limits import FAMILY
from prefect_tpu.infra.gcp.quota_table import SERVICE, Quota

RECENT_SECONDS = 3_600.0  # of quotas a point is written every minute; an older one says nothing of now


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One time series: its labels, and its newest value."""

    labels: Mapping[str, str]
    newest: float


def usage_filter(metric: str, location: str) -> str:
    """Which time series are meant, in Cloud Monitoring's language."""
    name = metric.removeprefix(f"{SERVICE}/")
    return (
        f'metric.type = "{SERVICE}/quota/{name}/usage" AND resource.type = "{SERVICE}/Location"'
        f' AND resource.labels.location = "{location}"'
    )


def used_of(series: Iterable[Series], quota: Quota) -> float | None:
    """How much is used; None where no series tells it of this quota and family."""
    mine = [
        one.newest
        for one in series
        if (quota.family is None or one.labels.get(FAMILY, "").lower() == quota.family.lower())
        and one.labels.get("limit_name", quota.id) == quota.id
    ]
    return max(mine, default=None)


def ask_series(project: str, metric: str, location: str, seconds: float) -> tuple[Series, ...]:
    """Ask Google. Raises Google's errors, `NotFound` where it has no such metric."""
    from google.cloud.monitoring_v3 import ListTimeSeriesRequest, MetricServiceClient, TimeInterval

    from prefect_tpu.infra.gcp.google_patience import patience

    now = int(time.time())
    request = ListTimeSeriesRequest(
        name=f"projects/{project}",
        filter=usage_filter(metric, location),
        interval=TimeInterval(start_time={"seconds": now - int(RECENT_SECONDS)}, end_time={"seconds": now}),
        view=ListTimeSeriesRequest.TimeSeriesView.FULL,
    )
    with MetricServiceClient(transport=_transport(address_of(MONITORING))) as client:
        return tuple(_series(found) for found in client.list_time_series(request, **patience(seconds)) if found.points)


def _transport(address: Address) -> Any:
    from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcTransport

    if not address.is_plain:
        return MetricServiceGrpcTransport(host=address.host, credentials=credentials_for(address))
    import grpc

    return MetricServiceGrpcTransport(
        channel=grpc.insecure_channel(address.host, options=[("grpc.enable_http_proxy", 0)])
    )


def _series(found: Any) -> Series:
    """Google gives points newest first; that is not relied upon."""
    newest = max(found.points, key=lambda point: point.interval.end_time.timestamp())
    value = newest.value.int64_value if "int64_value" in newest.value else newest.value.double_value
    return Series(labels=dict(found.metric.labels), newest=float(value))
