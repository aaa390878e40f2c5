"""What did a host return, or raise? Checked against its record before it is used."""

from __future__ import annotations

import json
from typing import Any

from prefect_tpu.infra import layout, returned
from prefect_tpu.infra.contract import HostRecord, ResultInfo
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.storage import Storage

LEADER = 0
MOST_REPEATED_BYTES = 64 * 2**10  # a larger value stays where it lies: results are read, logged and kept elsewhere


def read(storage: Storage, attempt: int) -> Any:
    """The leader's value as JSON; a pickled or large one as a sentence on where it lies; None for a command."""
    info = _record(storage, attempt, LEADER).result
    if info is None:
        return None
    name = layout.result(attempt, LEADER)
    raw = _checked(storage, name, info)
    if info.encoding == "json" and info.bytes <= MOST_REPEATED_BYTES:
        return json.loads(raw, parse_constant=str)  # "NaN" as text: a number of no value is none in strict JSON
    kind = "a JSON value" if info.encoding == "json" else "a pickled value"
    return f"{kind} of {info.bytes} bytes in {storage.where(name)}"


def load(storage: Storage, attempt: int, host: int = LEADER) -> Any:
    """A host's value itself; unpickles what the caller's own function returned."""
    info = _record(storage, attempt, host).result
    if info is None:
        return None
    return returned.value(_checked(storage, layout.result(attempt, host), info), info)


def gather(storage: Storage, attempt: int) -> list[Any]:
    """The values of all hosts, the leader's first."""
    return [load(storage, attempt, host) for host in range(history.read_plan(storage, attempt).hosts)]


def raised(storage: Storage, attempt: int, host: int) -> Exception | None:
    """What a sent function raised on a host, with the traceback there as a note.

    None where it left none, where that is missing, was changed or cannot be unpickled here, and for what is no error,
    such as `SystemExit`: why the job failed is known without it.
    """
    record = _record(storage, attempt, host)
    if record.exception is None or record.error is None:
        return None
    raw = storage.get(layout.exception(attempt, host))
    if raw is None or not returned.is_whole(raw, record.exception):
        return None
    return returned.exception(raw, f"Raised on host {host} in attempt {attempt}:\n{record.error.traceback.rstrip()}")


def _record(storage: Storage, attempt: int, host: int) -> HostRecord:
    name = layout.record(attempt, host)
    raw = storage.get(name)
    if raw is None:
        raise _lost(storage, name)
    with history.said_where(storage, name):
        return HostRecord.from_json(raw)


def _checked(storage: Storage, name: str, info: ResultInfo) -> bytes:
    raw = storage.get(name)
    if raw is None or not returned.is_whole(raw, info):
        raise _lost(storage, name)
    return raw


def _lost(storage: Storage, name: str) -> PlatformError:
    return PlatformError(
        f"{name} in {storage.url}, by which a host's value or error is known, is missing or was changed after it was"
        " written. Put a copy of it back, or run the job under another name."
    )
