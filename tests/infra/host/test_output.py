"""What a program writes arrives once and in order: in the log, and of a pod at its own output too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefect_tpu.infra import layout
from prefect_tpu.infra.host.output import LONGEST_SECONDS, PART_BYTES, SHORTEST_SECONDS, LogFile, LogParts
from prefect_tpu.infra.scratch import read_log
from prefect_tpu.infra.storage import LocalStorage


def log(storage: LocalStorage) -> bytes:
    return b"".join(read_log(storage.get, 2, 1))


class Program:
    """What has the writing end of an output."""

    def __init__(self, parts: LogParts) -> None:
        self.parts, self._end = parts, os.dup(parts.descriptor)
        parts.started()

    def write(self, text: bytes) -> None:
        rest = memoryview(text)
        while rest:
            rest = rest[os.write(self._end, rest) :]

    def end(self) -> None:
        os.close(self._end)
        self.parts.ended()


@pytest.fixture
def program(storage: LocalStorage, tmp_path: Path) -> Iterator[Program]:
    yield Program(LogParts(storage, tmp_path / "scratch", 2, 1))


def test_where_the_output_is_a_folder_the_log_is_a_file_that_is_added_to(tmp_path: Path) -> None:
    path = tmp_path / "hosts" / "0" / "log"
    for text in ("one", "two"):
        output = LogFile(path)
        subprocess.run([sys.executable, "-c", f"print({text!r})"], stdout=output.descriptor, check=True)
        output.started()
    assert path.read_text() == "one\ntwo\n"


def test_a_short_log_is_one_object(storage: LocalStorage, program: Program, capfd: pytest.CaptureFixture[str]) -> None:
    program.write(b"one\ntw")
    program.write(b"o\nthree, without an end")
    program.end()
    program.parts.ship()
    assert storage.get(layout.log(2, 1)) == log(storage) == b"one\ntwo\nthree, without an end"
    assert capfd.readouterr().out == "one\ntwo\nthree, without an end"


def test_a_long_one_is_in_parts_and_no_byte_is_lost(
    storage: LocalStorage, program: Program, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [b"%07d %s\n" % (number, b"x" * 100) for number in range(30_000)]
    for begin in range(0, len(lines), 10_000):
        program.write(b"".join(lines[begin : begin + 10_000]))
        program.parts.ship()
    program.end()
    program.parts.ship()
    assert log(storage) == b"".join(lines)
    assert capfd.readouterr().out.encode() == b"".join(lines)
    parts = [storage.get(layout.log_part(2, 1, part)) or b"" for part in range(4)]
    assert all(PART_BYTES <= len(part) < 2 * PART_BYTES for part in parts[:2])
    assert len(list((tmp_path / "scratch" / "log").iterdir())) == 1  # what is in the output needs no disk


def test_it_is_brought_now_and_then_and_only_where_something_was_written(
    storage: LocalStorage, program: Program, tmp_path: Path
) -> None:
    program.write(b"one\n")
    program.end()
    program.parts.ship_when_due(SHORTEST_SECONDS - 1)
    assert log(storage) == b""
    program.parts.ship_when_due(1000.0)
    assert log(storage) == b"one\n"
    (tmp_path / "scratch" / "log" / "0").write_bytes(b"one\ntwo\n")
    program.parts.ship_when_due(1000.0 + LONGEST_SECONDS - 1)
    assert log(storage) == b"one\n"
    program.parts.ship_when_due(1000.0 + LONGEST_SECONDS)
    assert log(storage) == b"one\ntwo\n"
    storage.delete(layout.log(2, 1))
    program.parts.ship_when_due(2000.0)
    assert log(storage) == b""


def test_what_storage_does_not_take_has_a_bound_on_the_disk_and_a_cut_says_so(
    storage: LocalStorage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = Program(LogParts(storage, tmp_path / "scratch", 2, 1, most_parts=2))
    lines = [b"%07d %s\n" % (number, b"x" * 1000) for number in range(5000)]
    program.write(b"".join(lines))
    program.end()
    assert sum(path.stat().st_size for path in (tmp_path / "scratch" / "log").iterdir()) <= 3 * PART_BYTES
    program.parts.ship()
    whole = log(storage)
    before, cut, after = whole.partition(b"prefect-tpu: ")
    assert whole.startswith(b"".join(lines[:1000])) and whole.endswith(b"".join(lines[-10:]))
    assert before and cut and b"MiB of this log are missing here" in after.splitlines()[0]
    assert capfd.readouterr().out.encode() == b"".join(lines)


def test_nobody_reads_a_log_that_is_not_there(storage: LocalStorage) -> None:
    assert log(storage) == b""
