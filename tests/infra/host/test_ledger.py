"""Events reach the ledger whole, in order, and once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import Scratch
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.ledger import LONGEST_SECONDS, LedgerShipper
from prefect_tpu.infra.storage import LocalStorage


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return tmp_path / Scratch.EVENTS


@pytest.fixture
def shipper(storage: LocalStorage, tmp_path: Path) -> LedgerShipper:
    return LedgerShipper(storage, tmp_path, attempt=2, host=1)


def append(events: Path, text: str) -> None:
    with events.open("a") as file:
        file.write(text)


def shipped(storage: LocalStorage) -> list[bytes | None]:
    names = [layout.ledger(2, "host1", sequence) for sequence in range(len(storage.list("ledger")))]
    return [storage.get(name) for name in names]


def test_nothing_is_shipped_where_nothing_was_written(
    storage: LocalStorage, events: Path, shipper: LedgerShipper
) -> None:
    shipper.ship()
    events.touch()
    shipper.ship()
    assert storage.list("ledger") == []


def test_a_line_waits_for_its_end(storage: LocalStorage, events: Path, shipper: LedgerShipper) -> None:
    append(events, "one\ntwo\nthr")
    shipper.ship()
    shipper.ship()
    assert shipped(storage) == [b"one\ntwo\n"]
    append(events, "ee\n")
    shipper.ship()
    assert shipped(storage) == [b"one\ntwo\n", b"three\n"]


def test_lines_that_cannot_be_written_wait(storage: LocalStorage, events: Path, shipper: LedgerShipper) -> None:
    append(events, "one\n")
    storage.put("ledger", b"in the way")
    with pytest.raises(PlatformError, match="A file lies where a folder must be"):
        shipper.ship()
    storage.delete("ledger")
    append(events, "two\n")
    shipper.ship()
    assert shipped(storage) == [b"one\ntwo\n"]


def test_lines_that_were_written_although_the_answer_was_lost_are_not_taken_for_the_later_ones(
    storage: LocalStorage, events: Path, shipper: LedgerShipper
) -> None:
    append(events, "one\ntwo\n")
    storage.put(layout.ledger(2, "host1", 0), b"one\n")  # and nobody told this host
    shipper.ship()
    shipper.ship()
    assert shipped(storage) == [b"one\n", b"two\n"]


def test_often_while_young_and_once_a_minute_later(storage: LocalStorage, events: Path, shipper: LedgerShipper) -> None:
    shipped_at = []
    for second in range(200):
        append(events, f"{second}\n")
        shipper.ship_when_due(float(second))
        if len(storage.list("ledger")) > len(shipped_at):
            shipped_at.append(second)
    assert shipped_at[:3] == [1, 2, 3]
    assert len(shipped_at) < 80
    shipper.ship_when_due(7000.0)
    append(events, "late\n")
    count = len(storage.list("ledger"))
    shipper.ship_when_due(7000.0 + LONGEST_SECONDS - 1)
    assert len(storage.list("ledger")) == count
    shipper.ship_when_due(7000.0 + LONGEST_SECONDS)
    assert len(storage.list("ledger")) == count + 1


@given(pieces=st.lists(st.text("ab\n", max_size=8), max_size=8))
@settings(max_examples=25)
def test_however_the_lines_arrive_all_whole_ones_are_shipped_once(
    pieces: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("host")
    storage = LocalStorage(folder / "out")
    shipper = LedgerShipper(storage, folder, attempt=2, host=1)
    for piece in pieces:
        append(folder / Scratch.EVENTS, piece)
        shipper.ship()
    written = "".join(pieces)
    whole = written[: written.rfind("\n") + 1]
    assert b"".join(raw or b"" for raw in shipped(storage)) == whole.encode()
