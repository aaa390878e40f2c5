"""What did the leader return? Checked against its record before it is used."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord, ResultInfo
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import Storage

LEADER = 0


def read(storage: Storage, attempt: int) -> Any:
    """The value as JSON; a pickled one as a sentence that says where it lies; None for a command."""
    info = _info(storage, attempt)
    if info is None:
        return None
    raw = _checked(storage, attempt, info)
    if info.encoding == "json":
        return json.loads(raw)
    return f"a pickled value of {info.bytes} bytes in {storage.url}/{layout.result(attempt, LEADER)}"


def load(storage: Storage, attempt: int) -> Any:
    """The value itself; unpickles what the caller's own function returned."""
    info = _info(storage, attempt)
    if info is None or info.encoding == "json":
        return read(storage, attempt)
    import cloudpickle

    return cloudpickle.loads(_checked(storage, attempt, info))


def _info(storage: Storage, attempt: int) -> ResultInfo | None:
    name = layout.record(attempt, LEADER)
    raw = storage.get(name)
    if raw is None:
        raise _lost(storage, name)
    return HostRecord.from_json(raw).result


def _checked(storage: Storage, attempt: int, info: ResultInfo) -> bytes:
    name = layout.result(attempt, LEADER)
    raw = storage.get(name)
    if raw is None or hashlib.sha256(raw).hexdigest() != info.sha256:
        raise _lost(storage, name)
    return raw


def _lost(storage: Storage, name: str) -> PlatformError:
    return PlatformError(
        f"{name} in {storage.url}, by which the leader's value is known, is missing or was changed after it was"
        " written. Put a copy of it back, or run the job under another name."
    )
