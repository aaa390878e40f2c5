"""A log is read as far as it is written, whole lines only, and each line once."""

from __future__ import annotations

from prefect_tpu.infra import layout
from prefect_tpu.infra.launcher.logs import Tail, tails
from prefect_tpu.infra.storage import LocalStorage


def test_lines_are_read_once_and_whole(storage: LocalStorage) -> None:
    tail = Tail(storage, 1, 0)
    assert list(tail.lines()) == [], "a host that has not started has no log"
    storage.put(layout.log(1, 0), b"one\r\ntw")
    assert list(tail.lines()) == ["one"]
    storage.put(layout.log(1, 0), "one\r\ntwo é\nthr".encode())
    assert list(tail.lines()) == ["two é"]
    assert list(tail.lines()) == []
    assert list(tail.lines(to_end=True)) == ["thr"]
    assert list(tail.lines(to_end=True)) == []


def test_bytes_that_are_no_text_are_shown(storage: LocalStorage) -> None:
    storage.put(layout.log(1, 0), b"\xff\n")
    assert list(Tail(storage, 1, 0).lines()) == ["\N{REPLACEMENT CHARACTER}"]


def test_lines_of_several_hosts_say_whose_they_are(storage: LocalStorage) -> None:
    for host in (0, 10):
        storage.put(layout.log(2, host), b"x\n")
    assert [list(tail.lines()) for tail in tails(storage, 2, [0, 10])] == [["host  0 | x"], ["host 10 | x"]]
    assert [list(tail.lines()) for tail in tails(storage, 2, [10])] == [["x"]]
