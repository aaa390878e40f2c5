"""How times are written in objects."""

from __future__ import annotations

import datetime


def now() -> str:
    """To the second, as statuses have it."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def precisely_now() -> str:
    """To the microsecond, as leases, events and logs have it."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def seconds_since_epoch(written: str) -> float:
    """The other way round, for either of them."""
    return datetime.datetime.fromisoformat(written).timestamp()
