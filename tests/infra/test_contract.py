"""Records fit their limit, older ones are read, newer and damaged ones are refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra.contract import (
    RECORD_LIMIT_BYTES,
    VERSION,
    ContractError,
    ExitCode,
    HostRecord,
    ProgramError,
    Progress,
    ResultInfo,
    Silence,
    read_json,
    write_json,
)

# Short pieces repeated, so that texts are long without being slow to make.
texts = st.builds(lambda piece, times: piece * times, st.text(max_size=20), st.integers(0, 1500))
steps = st.none() | st.integers(0, 2**53)
seconds = st.floats(0, 1e9)
records = st.builds(
    HostRecord,
    attempt=st.integers(1, 999),
    host=st.integers(0, 10_000),
    exit_code=st.sampled_from([int(code) for code in ExitCode]),
    program_code=st.none() | st.integers(0, 255),
    program_signal=st.none() | st.integers(1, 64),
    stop_reason=st.none() | st.sampled_from(["notice", "stop", "orphaned", "deadline"]),
    joined_after=st.none() | seconds,
    ended_after=seconds,
    progress=st.builds(
        Progress,
        step=steps,
        first_step=steps,
        saved_step=steps,
        metrics=st.dictionaries(st.text(max_size=30), st.floats(allow_nan=False), max_size=5),
    ),
    error=st.none() | st.builds(ProgramError, type=texts, message=texts, traceback=texts),
    lost_peer=st.booleans(),
    silence=st.none() | st.builds(Silence, silent_for=seconds, where=st.text(max_size=40), step=steps),
    result=st.none() | st.builds(ResultInfo, encoding=st.just("json"), sha256=st.just("a" * 64), bytes=st.integers(0)),
)


def record(**changes: Any) -> HostRecord:
    return HostRecord(**{"attempt": 2, "host": 1, "exit_code": 80, **changes})


def damaged(**changes: Any) -> bytes:
    return json.dumps({**json.loads(record().to_json()), **changes}).encode()


@given(records)
@settings(max_examples=60)
def test_a_record_never_exceeds_its_limit_and_keeps_every_fact(given_record: HostRecord) -> None:
    raw = given_record.to_json()
    assert len(raw) <= RECORD_LIMIT_BYTES
    read = HostRecord.from_json(raw)
    for name in ("attempt", "host", "exit_code", "program_signal", "stop_reason", "lost_peer", "silence", "result"):
        assert getattr(read, name) == getattr(given_record, name)
    assert read.progress.step == given_record.progress.step
    assert (read.error is None) == (given_record.error is None)
    if read.error and given_record.error:
        assert given_record.error.traceback.endswith(read.error.traceback)
        assert given_record.error.message.startswith(read.error.message)


@pytest.mark.parametrize("error", [None, ProgramError(type="Stalled", message="m" * 5_000, traceback="t" * 5_000)])
def test_a_place_without_end_is_cut(error: ProgramError | None) -> None:
    silence = Silence(silent_for=1.0, where="\\" * 5_000)
    raw = record(silence=silence, error=error).to_json()
    assert len(raw) <= RECORD_LIMIT_BYTES
    read = HostRecord.from_json(raw).silence
    assert read is not None and read.where and silence.where.startswith(read.where)


def test_a_long_traceback_keeps_its_tail_where_the_cause_stands() -> None:
    trace = "".join(f"line {i}\n" for i in range(2000)) + "ValueError: shapes differ"
    error = ProgramError(type="ValueError", message="shapes differ", traceback=trace)
    read = HostRecord.from_json(record(error=error).to_json()).error
    assert read is not None
    assert (read.type, read.message) == ("ValueError", "shapes differ")
    assert read.traceback.endswith("line 1999\nValueError: shapes differ")
    assert len(read.traceback) > 3000


@pytest.mark.parametrize("line", ['  File "a.py", line 1\n', "値が違います\n", "\U0001f600"])
def test_what_is_cut_is_what_does_not_fit_and_no_more(line: str) -> None:
    error = ProgramError(type="E", message="m", traceback=line * 20_000)
    assert len(record(error=error).to_json()) > 0.95 * RECORD_LIMIT_BYTES


def test_metrics_go_before_any_of_the_traceback() -> None:
    progress = Progress(step=7, metrics={f"metric {i}": 1.0 for i in range(400)})
    error = ProgramError(type="E", message="m", traceback="t" * 3000)
    read = HostRecord.from_json(record(progress=progress, error=error).to_json())
    assert read.progress == Progress(step=7)
    assert read.error == error


@given(records)
@settings(max_examples=30)
def test_a_record_that_fits_survives_the_way_there_and_back(given_record: HostRecord) -> None:
    read = HostRecord.from_json(given_record.to_json())
    assert HostRecord.from_json(read.to_json()) == read


def test_durations_since_the_hosts_met_are_the_only_ones_compared() -> None:
    assert record(joined_after=12.0, ended_after=20.0).ended_since_join == 8.0
    assert record(ended_after=20.0).ended_since_join == 20.0


def test_a_newer_version_is_refused_with_what_to_upgrade() -> None:
    with pytest.raises(ContractError, match=rf"version {VERSION + 1}.*Upgrade prefect-tpu here"):
        HostRecord.from_json(damaged(version=VERSION + 1))


def test_an_older_version_and_unknown_fields_are_read() -> None:
    assert HostRecord.from_json(damaged(version=0, colour="blue")) == record()
    progress = {"step": 3, "first_step": 0, "saved_step": None, "metrics": {}, "pace": 1.5}
    assert HostRecord.from_json(damaged(progress=progress)).progress == Progress(step=3, first_step=0)


@pytest.mark.parametrize("cut", [0, 1, 40, 100, 200])
def test_a_record_cut_short_is_damaged(cut: int) -> None:
    with pytest.raises(ContractError, match="is damaged"):
        HostRecord.from_json(record().to_json()[:cut])


@pytest.mark.parametrize("raw", [b"[]", b"1", b'"text"', b"null", b"{}", b'{"version":"1"}'])
def test_json_that_is_no_record_of_ours_is_refused(raw: bytes) -> None:
    with pytest.raises(ContractError, match="not a record of prefect-tpu"):
        HostRecord.from_json(raw)


@pytest.mark.parametrize("changes", [{"progress": None}, {"progress": []}, {"error": "text"}, {"error": {"type": "E"}}])
def test_mistyped_fields_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ContractError, match="lacks or mistypes"):
        HostRecord.from_json(damaged(**changes))


def test_missing_fields_are_refused() -> None:
    with pytest.raises(ContractError, match="lacks or mistypes"):
        HostRecord.from_json(write_json({"attempt": 1}))


@given(st.binary(max_size=60))
@settings(max_examples=60)
def test_whatever_bytes_there_are_only_a_contract_error_comes_out(raw: bytes) -> None:
    with pytest.raises(ContractError):
        HostRecord.from_json(raw)


def test_equal_content_is_equal_bytes() -> None:
    assert write_json({"b": 1, "a": 2}) == write_json({"a": 2, "b": 1}) == b'{"a":2,"b":1,"version":1}'
    assert read_json(write_json({"a": [1]}), "it") == {"a": [1], "version": VERSION}
