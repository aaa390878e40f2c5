"""The launcher's events, each in an object written once."""

from __future__ import annotations

import time

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher.ledger import WRITER, Ledger
from prefect_tpu.infra.storage import LocalStorage


def test_events_read_in_the_order_they_were_written(storage: LocalStorage) -> None:
    before = time.time()
    for number in range(12):
        Ledger(storage).write(1, "thing", number=number)
    Ledger(storage).write(11, "other")
    found = Ledger(storage).read(1, WRITER)
    assert [event["number"] for event in found] == list(range(12))
    assert before <= found[0]["time"] <= found[-1]["time"] <= time.time()
    assert len(storage.list("ledger")) == 13


def test_two_writers_never_overwrite_each_other(storage: LocalStorage) -> None:
    storage.put(layout.ledger(1, WRITER, 3), b'{"time": 1.0, "event": "from another driver"}\n')
    for _ in range(4):
        Ledger(storage).write(1, "mine")
    events = [event["event"] for event in Ledger(storage).read(1, WRITER)]
    assert sorted(events) == ["from another driver", "mine", "mine", "mine", "mine"]


def test_lines_that_are_no_events_are_left_out(storage: LocalStorage) -> None:
    storage.put(layout.ledger(1, WRITER, 0), b'{"event": "submitted"}\n[]\n{"time": 1}\n\xff\n{"event": "cut')
    storage.put(layout.ledger(1, WRITER, 1), b'{"time": 7.0, "event": "submitted"}\n')
    storage.put(f"ledger/1-{WRITER}-copy.jsonl", b'{"event": "not ours"}\n')
    assert [event.get("time") for event in Ledger(storage).read(1, WRITER)] == [None, 7.0]
    assert Ledger(storage).submitted(1).started == 7.0


def test_an_attempt_starts_when_it_was_submitted(storage: LocalStorage) -> None:
    storage.put(layout.ledger(1, WRITER, 0), b'{"time": 5.0, "event": "submitted"}\n')
    storage.put(layout.ledger(1, WRITER, 1), b'{"time": 9.0, "event": "submitted"}\n')
    assert Ledger(storage).submitted(1).started == 5.0
    assert Ledger(storage).submitted(2).started >= 5.0
