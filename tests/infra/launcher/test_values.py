"""The leader's value is checked against its record before it is used."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import HostRecord, ProgramError, ResultInfo
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.values import encode
from prefect_tpu.infra.launcher import values
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage


def returned(storage: LocalStorage, value: object, host: int = 0) -> None:
    encoding, raw = encode(value)
    info = ResultInfo(encoding=encoding, sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))
    storage.put(layout.record(1, host), HostRecord(attempt=1, host=host, exit_code=0, result=info).to_json())
    storage.put(layout.result(1, host), raw)


def failed(storage: LocalStorage, raw: bytes | None, traceback: str = "Traceback: here\n") -> None:
    """A record of host 1 with an exception, or with the text of one only."""
    info = raw and ResultInfo(encoding="cloudpickle", sha256=hashlib.sha256(raw).hexdigest(), bytes=len(raw))
    error = ProgramError(type="E", message="m", traceback=traceback)
    record = HostRecord(attempt=1, host=1, exit_code=80, error=error, exception=info or None)
    storage.put(layout.record(1, 1), record.to_json())
    if raw is not None:
        storage.put(layout.exception(1, 1), raw)


def test_json_reads_as_it_was_returned(storage: LocalStorage) -> None:
    returned(storage, {"loss": 0.5, "steps": [1, 2]})
    assert values.read(storage, 1) == values.load(storage, 1) == {"loss": 0.5, "steps": [1, 2]}


def test_not_a_number_is_shown_as_text_and_loaded_as_what_it_is(storage: LocalStorage) -> None:
    returned(storage, {"loss": float("nan"), "best": [float("-inf")]})
    assert values.read(storage, 1) == {"loss": "NaN", "best": ["-Infinity"]}
    assert math.isnan(values.load(storage, 1)["loss"])


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


def test_a_large_value_stays_where_it_lies(storage: LocalStorage) -> None:
    value = ["x" * 1000] * 100
    returned(storage, value)
    assert values.read(storage, 1) == f"a JSON value of 100400 bytes in {storage.url}/{layout.result(1, 0)}"
    assert values.load(storage, 1) == value


def test_the_values_of_all_hosts_are_gathered(storage: LocalStorage, make_plan: Callable[..., HostPlan]) -> None:
    storage.put(layout.plan(1), make_plan(hosts=3, attempt=1).to_json())
    for host in range(3):
        returned(storage, host * 10, host)
    assert values.gather(storage, 1) == [0, 10, 20]


class Wrong(ValueError):
    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


def test_what_a_function_raised_comes_back_with_the_traceback_of_its_host(storage: LocalStorage) -> None:
    failed(storage, pickle.dumps(Wrong(7)))
    found = values.raised(storage, 1, 1)
    assert isinstance(found, Wrong) and found.code == 7
    assert found.__notes__ == ["Raised on host 1 in attempt 1:\nTraceback: here"]


@pytest.mark.parametrize("raw", [None, b"no pickle", pickle.dumps(5), pickle.dumps(SystemExit(3))])
def test_what_is_no_error_here_is_told_by_its_text_only(storage: LocalStorage, raw: bytes | None) -> None:
    failed(storage, raw)
    assert values.raised(storage, 1, 1) is None


def test_a_changed_exception_is_never_unpickled_and_does_not_hide_the_failure(storage: LocalStorage) -> None:
    failed(storage, pickle.dumps(Wrong(7)))
    storage.put(layout.exception(1, 1), pickle.dumps(Wrong(8)))
    assert values.raised(storage, 1, 1) is None
    storage.delete(layout.exception(1, 1))
    assert values.raised(storage, 1, 1) is None
