"""The leader's value is checked against its record before it is used."""

from __future__ import annotations

import hashlib

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord, ResultInfo
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.values import encode
from prefect_tpu.infra.launcher import values
from prefect_tpu.infra.storage import LocalStorage


def returned(storage: LocalStorage, value: object) -> None:
    encoding, raw = encode(value)
    info = ResultInfo(encoding=encoding, sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))
    storage.put(layout.record(1, 0), HostRecord(attempt=1, host=0, exit_code=0, result=info).to_json())
    storage.put(layout.result(1, 0), raw)


def test_json_reads_as_it_was_returned(storage: LocalStorage) -> None:
    returned(storage, {"loss": 0.5, "steps": [1, 2]})
    assert values.read(storage, 1) == values.load(storage, 1) == {"loss": 0.5, "steps": [1, 2]}


def test_a_pickle_is_loaded_only_when_asked_for(storage: LocalStorage) -> None:
    returned(storage, {1: (2, 3)})
    text = values.read(storage, 1)
    assert text.startswith("a pickled value of") and text.endswith(layout.result(1, 0))
    assert values.load(storage, 1) == {1: (2, 3)}


def test_a_command_returns_nothing(storage: LocalStorage) -> None:
    storage.put(layout.record(1, 0), HostRecord(attempt=1, host=0, exit_code=0).to_json())
    assert values.load(storage, 1) is None


def test_a_missing_record_is_refused(storage: LocalStorage) -> None:
    returned(storage, [8])
    storage.delete(layout.record(1, 0))
    with pytest.raises(PlatformError, match=r"record\.json in .* is missing .*run the job under another name"):
        values.read(storage, 1)


@pytest.mark.parametrize("raw", [b"[9]", b"", None])
def test_a_changed_or_missing_value_is_refused(storage: LocalStorage, raw: bytes | None) -> None:
    returned(storage, [8])
    storage.delete(layout.result(1, 0))
    if raw is not None:
        storage.put(layout.result(1, 0), raw)
    for read in (values.read, values.load):
        with pytest.raises(PlatformError, match="missing or was changed"):
            read(storage, 1)
