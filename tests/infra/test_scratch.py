"""What a host's program says of itself, and what is made of damage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from prefect_tpu.infra.contract import Progress, Scratch, write_json
from prefect_tpu.infra.scratch import JOINED_WITHIN_BYTES, HostProgress, joined_after, read_json, read_progress


def test_silence_is_no_progress(tmp_path: Path) -> None:
    assert read_progress(tmp_path) == read_progress(tmp_path / "absent") == Progress()
    assert joined_after(tmp_path) is None


def test_the_newest_report_is_read(tmp_path: Path) -> None:
    report = {"step": 7, "first_step": 2, "saved_step": 5, "metrics": {"loss": 0.5}, "reported_after": 9, "pace": 1.0}
    (tmp_path / Scratch.PROGRESS).write_bytes(write_json(report))
    assert read_progress(tmp_path) == Progress(
        step=7, first_step=2, saved_step=5, metrics={"loss": 0.5}, reported_after=9.0
    )
    (tmp_path / Scratch.PROGRESS).write_bytes(write_json({"step": 8}))
    assert read_progress(tmp_path) == Progress(step=8)
    junk = {
        "step": "a",
        "first_step": [1],
        "saved_step": 1.5,
        "metrics": {"loss": "x", "rate": 2, "huge": 10**400},
        "reported_after": "soon",
    }
    (tmp_path / Scratch.PROGRESS).write_bytes(write_json(junk))
    assert read_progress(tmp_path) == Progress(metrics={"rate": 2.0})
    (tmp_path / Scratch.PROGRESS).write_bytes(write_json({"step": 8, "metrics": [1]}))
    assert read_progress(tmp_path) == Progress(step=8)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"step":1}', b'{"version":99,"step":1}'])
def test_a_damaged_or_newer_report_is_none(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / Scratch.PROGRESS).write_bytes(raw)
    assert read_json(tmp_path / Scratch.PROGRESS) is None
    assert read_progress(tmp_path) == Progress()


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", None),
        ('{"after":1.5,"event":"joined"}\n', 1.5),
        ('{"after":1.0,"event":"step"}\n{"after":1.5,"event":"joined"}\n{"after":2.0,"ev', 1.5),
        ('{"after":1.0,"event":"step"}\n{"after":1.5,"eve', None),
        ("{}\n", None),
        ("[]\n", None),
        ('{"after":"soon","event":"joined"}\n', None),
        ('{"after":null,"event":"joined"}\n', None),
        (f'{{"after":1{"0" * 400},"event":"joined"}}\n', None),
    ],
)
def test_when_the_hosts_met(tmp_path: Path, text: str, after: float | None) -> None:
    (tmp_path / Scratch.EVENTS).write_text(text)
    assert joined_after(tmp_path) == after


def test_a_long_file_of_events_is_not_read_to_its_end(tmp_path: Path) -> None:
    joined = '{"after":1.5,"event":"joined"}\n'
    steps = '{"after":2.0,"event":"step"}\n' * JOINED_WITHIN_BYTES
    (tmp_path / Scratch.EVENTS).write_text(joined + steps)
    assert joined_after(tmp_path) == 1.5
    (tmp_path / Scratch.EVENTS).write_text(steps + joined)
    assert joined_after(tmp_path) is None


def test_processes_that_write_the_same_file_do_not_meet(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from prefect_tpu.infra.scratch import overwrite
        for number in range(500):
            overwrite(Path(sys.argv[1]), sys.argv[2].encode() * 100)
    """
    path = tmp_path / "file.json"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), word]) for word in "ab"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert path.read_bytes() in (b"a" * 100, b"b" * 100)
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_runner_tells_of_its_scratch_folder_is_what_the_folder_says(tmp_path: Path) -> None:
    assert HostProgress.of(tmp_path) == HostProgress()
    (tmp_path / Scratch.EVENTS).write_text('{"after": 1.5, "event": "joined"}\n')
    assert HostProgress.of(tmp_path) == HostProgress(joined=True)
    (tmp_path / Scratch.PROGRESS).write_bytes(write_json({"step": 7, "metrics": {"loss": 0.5}}))
    told = HostProgress.of(tmp_path)
    assert told == HostProgress(progress=Progress(step=7, metrics={"loss": 0.5}), joined=True)
    assert HostProgress.from_json(told.to_json()) == told


@pytest.mark.parametrize("raw", [None, b"", b"{", b"[]", b'{"version": 99, "step": 1}'])
def test_nothing_is_known_of_a_host_that_told_nothing_readable(raw: bytes | None) -> None:
    assert HostProgress.from_json(raw) == HostProgress()
