"""What tests of node pools ask for."""

from __future__ import annotations

from typing import Any

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp.pool_decision import Wanted
from prefect_tpu.infra.gcp.pool_names import Try, pool_count, pool_names
from prefect_tpu.infra.gcp.pool_request import PoolWish

OUTPUT, ZONE = "gs://bucket/jobs/digits", "us-east5-b"
NOW = 1_790_000_000.0


def a_try(accelerator: str = "v6e-16", **changes: Any) -> Try:
    said = {"job": "digits", "attempt": 2, "output": OUTPUT, "zone": ZONE, **changes}
    return Try(accelerator=accelerator, **said)


def wanted(accelerator: str = "v6e-16", slices: int = 1, *, attempt: int = 2, **changes: Any) -> Wanted:
    """All pools of a try."""
    shape, tried = resolve(accelerator), a_try(accelerator, attempt=attempt)
    capacity, _, reservation = (shape.capacity or "").partition("=")
    count = pool_count(shape, slices)
    wishes = (
        PoolWish(
            name=name,
            labels=tried.labels(NOW, NOW + 3600),
            shape=shape,
            nodes=shape.hosts * slices // count,
            zone=ZONE,
            capacity=capacity,
            reservation=reservation or None,
            **changes,
        )
        for name in pool_names(tried, shape, slices)
    )
    return Wanted(tried=tried, wishes=tuple(wishes))


def wish(accelerator: str, **changes: Any) -> PoolWish:
    """The first pool."""
    return wanted(accelerator, **changes).wishes[0]
