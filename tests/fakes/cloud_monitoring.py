"""Google's Cloud Monitoring API by gRPC, on loopback: time series of how much of a quota is used."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
from google.cloud.monitoring_v3 import ListTimeSeriesRequest, ListTimeSeriesResponse, TimeSeries
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from quota_catalogue import CATALOGUE, METRICS
from serving import Silence

VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING"
_TERM = re.compile(r'\s*(?P<key>[a-z_]+(?:\.[a-z_]+)+)\s*=\s*"(?P<value>[^"]*)"\s*')
_METHOD = "ListTimeSeries"


@dataclass(frozen=True, kw_only=True)
class Written:
    """A series that a test has written: value and age in seconds of each point."""

    project: str
    metric: str
    location: str
    points: tuple[tuple[int, float], ...]
    labels: Mapping[str, str] = field(default_factory=dict)


class Monitoring(Silence):
    """What a test says of Google's time series, and what was asked.

    denied, switched_off, away: as they say. page: series per answer.
    asked: filters, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.denied = self.switched_off = self.away = False
        self.page = 100
        self.asked: list[str] = []
        self.url = ""
        self._series: list[Written] = []

    def use(
        self,
        quota: str,
        place: str,
        *points: tuple[int, float],
        project: str = "research",
        **labels: str,
    ) -> None:
        """So much of a quota was in use in a region or zone so many seconds ago; labels as Google writes them."""
        known = CATALOGUE[quota]
        assert place in known.places and set(labels) <= {*known.dimensions, "limit_name"}
        named = {"limit_name": quota, **labels}
        self._series.append(Written(project=project, metric=known.metric, location=place, points=points, labels=named))

    def list(self, request: ListTimeSeriesRequest, context: Any) -> ListTimeSeriesResponse:
        self.asked.append(request.filter)
        self.outlast_silence()
        if self.away:
            context.abort(grpc.StatusCode.UNAVAILABLE, "The service is currently unavailable.")
        if self.denied or self.switched_off:
            _deny(context, "SERVICE_DISABLED" if self.switched_off else "IAM_PERMISSION_DENIED")
        wanted = _terms(request, context)
        if wanted["metric.type"] not in {_usage(metric) for metric in METRICS}:
            context.abort(
                grpc.StatusCode.NOT_FOUND, f'Cannot find metric(s) that match type = "{wanted["metric.type"]}".'
            )
        return self._page_of(request, [one for one in self._series if _matches(one, request.name, wanted)])

    def _page_of(self, request: ListTimeSeriesRequest, series: list[Written]) -> ListTimeSeriesResponse:
        start = int(request.page_token or 0)
        found = [_time_series(one, request) for one in series[start : start + self.page]]
        rest = str(start + self.page) if start + self.page < len(series) else ""
        return ListTimeSeriesResponse(time_series=[one for one in found if one.points], next_page_token=rest)


def _usage(metric: str) -> str:
    service, _, name = metric.partition("/")
    return f"{service}/quota/{name}/usage"


def _terms(request: ListTimeSeriesRequest, context: Any) -> dict[str, str]:
    """What of Google's filter language is known here: equalities, joined by AND."""
    matches = [_TERM.fullmatch(term) for term in re.split(r"\bAND\b", request.filter)]
    wanted = {match["key"]: match["value"] for match in matches if match}
    known = ("metric.type", "resource.type", "resource.labels.", "metric.labels.")
    wrong = not all(matches) or len(wanted) != len(matches) or not all(key.startswith(known) for key in wanted)
    if wrong or "metric.type" not in wanted or request.order_by or not request.interval.end_time:
        context.abort(
            grpc.StatusCode.INVALID_ARGUMENT,
            f"The filter {request.filter!r} must name a single metric type, and the interval must have an end.",
        )
    return wanted


def _labels(one: Written) -> dict[str, str]:
    return {
        "metric.type": _usage(one.metric),
        "resource.type": "compute.googleapis.com/Location",
        "resource.labels.location": one.location,
        **{f"metric.labels.{name}": value for name, value in one.labels.items()},
    }


def _matches(one: Written, name: str, wanted: Mapping[str, str]) -> bool:
    labels = _labels(one)
    return name == f"projects/{one.project}" and all(labels.get(key) == value for key, value in wanted.items())


def _time_series(one: Written, request: ListTimeSeriesRequest) -> TimeSeries:
    now, interval = time.time(), request.interval
    earliest = interval.start_time.timestamp() if interval.start_time else interval.end_time.timestamp()
    points = [
        {"interval": {"start_time": _at(now - age), "end_time": _at(now - age)}, "value": {"int64_value": value}}
        for value, age in sorted(one.points, key=lambda point: point[1])  # the newest first
        if earliest <= now - age
    ]
    return TimeSeries(
        metric={"type": _usage(one.metric), "labels": dict(one.labels)},
        resource={"type": "compute.googleapis.com/Location", "labels": {"location": one.location}},
        points=points,
    )


def _at(seconds: float) -> dict[str, int]:
    return {"seconds": int(seconds)}


def _deny(context: Any, reason: str) -> NoReturn:
    """With Google's own details, which tell why."""
    said = "Permission monitoring.timeSeries.list denied (or the resource may not exist)."
    packed = any_pb2.Any()
    packed.Pack(error_details_pb2.ErrorInfo(reason=reason, domain="googleapis.com"))
    status = status_pb2.Status(code=grpc.StatusCode.PERMISSION_DENIED.value[0], message=said, details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.PERMISSION_DENIED, said)
    raise AssertionError("abort raises")


@contextmanager
def running() -> Iterator[Monitoring]:
    """The API on a free port of this machine."""
    monitoring = Monitoring()
    method: Callable[..., Any] = grpc.unary_unary_rpc_method_handler(
        monitoring.list,
        request_deserializer=ListTimeSeriesRequest.deserialize,
        response_serializer=ListTimeSeriesResponse.serialize,
    )
    service = grpc.method_handlers_generic_handler("google.monitoring.v3.MetricService", {_METHOD: method})
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((service,))
    monitoring.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield monitoring
    finally:
        monitoring._may_answer.set()
        server.stop(0).wait()
