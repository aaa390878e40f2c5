"""A log is read on from where it was read to, or from its last lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_tpu.infra.backends.local_logs import BLOCK_BYTES, last_lines, read_lines


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs") / "log"


def test_a_line_without_its_end_waits(log: Path) -> None:
    assert read_lines(log.with_name("none"), 0, whole=True) == ([], 0)
    log.write_bytes(b"one\ntw")
    assert read_lines(log, 0, whole=True) == (["one"], 4)
    log.write_bytes(b"one\ntwo\n\xff\n")
    assert read_lines(log, 4, whole=True) == (["two", "\ufffd"], 10)
    log.write_bytes(b"one\nend")
    assert read_lines(log, 4, whole=False) == (["end"], 7)


@given(st.lists(st.text("ab", max_size=3), max_size=8), st.booleans(), st.integers(0, 10))
def test_the_last_lines_are_the_last_lines(log: Path, lines: list[str], is_open: bool, count: int) -> None:
    text = "".join(f"{line}\n" for line in lines) + ("open" if is_open else "")
    log.write_text(text)
    shown, _ = read_lines(log, last_lines(log, count), whole=False)
    whole = text.splitlines()
    assert shown == whole[max(0, len(whole) - count) :]


def test_long_logs_are_read_from_their_end(log: Path) -> None:
    line = b"x" * (BLOCK_BYTES // 2) + b"\n"
    log.write_bytes(line * 5)
    assert last_lines(log, 2) == 3 * len(line) and last_lines(log, 9) == 0
    assert last_lines(log.with_name("none"), 2) == 0


def test_a_long_log_is_read_in_pieces_each_line_once(log: Path) -> None:
    lines = [f"{number} {'x' * 1000}" for number in range(300)] + ["y" * 3 * BLOCK_BYTES, "end"]
    log.write_text("\n".join(lines) + "\n")
    found, position, pieces = [], 0, 0
    while (piece := read_lines(log, position, whole=True))[0]:
        found += piece[0]
        position, pieces = piece[1], pieces + 1
    assert found == lines and position == log.stat().st_size
    assert pieces > 3
