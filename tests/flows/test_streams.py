"""A reader that is gone, a full disk and closed streams change nothing but what is seen."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prefect_tpu.flows.streams import HeededStream
from prefect_tpu.infra import layout
from prefect_tpu.infra.job import Program, SliceJob

TALKS = """
import sys
from prefect_tpu.flows.streams import answer, make_lasting
make_lasting()
for number in range(2000):
    sys.stderr.write("what happens on a long line of progress\\n")
    sys.stderr.flush()
print("out of reach", file=sys.stderr)
answer("42", advice="Look there.")
with open(sys.argv[1], "w") as file:
    file.write("came to its end")
"""
RAISES = """
import sys
from prefect_tpu.flows.streams import answer, make_lasting
from prefect_tpu.infra.errors import PlatformError
make_lasting()
try:
    answer("42", advice="Look there.")
except PlatformError as exc:
    print(exc, file=sys.stderr)
"""
Talk = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Runs a talking program under a redirection of the shell's."""

    def run(redirection: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-c", f'"$0" -c "$1" "$2" {redirection}', sys.executable, TALKS, str(tmp_path / "end")]
        return subprocess.run(command, capture_output=True, text=True, timeout=30)

    return run


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2> >(true)", "2>&-", "<&-", "2>&- <&-"])
def test_standard_error_may_fail(talk: Talk, tmp_path: Path, redirection: str) -> None:
    ended = talk(redirection)
    assert (ended.returncode, ended.stdout) == (0, "42\n"), ended.stderr
    assert (tmp_path / "end").read_text() == "came to its end"


def test_a_closed_standard_output_takes_no_answer_and_nothing_else_takes_its_place(talk: Talk, tmp_path: Path) -> None:
    assert talk(">&-").returncode == 0
    assert (tmp_path / "end").read_text() == "came to its end"


def test_an_answer_that_does_not_arrive_is_an_error_that_says_where_to_look() -> None:
    command = ["bash", "-c", '"$0" -c "$1" >/dev/full', sys.executable, RAISES]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.stderr == (
        "The answer could not be written to standard output: No space left on device. Look there.\n"
    )
    assert ended.returncode == 0


LOST = "The answer could not be written to standard output: No space left on device."
SHELL = str(Path(sys.executable).with_name("prefect-tpu"))


@pytest.mark.parametrize("words", ["list", "list --json", "accelerators", "version"])
def test_a_full_disk_is_an_error_in_one_line_whichever_command_answers(tmp_path: Path, words: str) -> None:
    (tmp_path / "good").mkdir()
    job = SliceJob(name="good", program=Program(kind="command", target="true"), accelerators=("cpu",))
    (tmp_path / "good" / layout.JOB).write_bytes(job.to_json())
    output = f" --output {shlex.quote(str(tmp_path))}" if "list" in words else ""
    shell = f"{shlex.quote(SHELL)} {words}{output} >/dev/full"
    ended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=30)
    said = "" if "--json" in words else f"prefect-tpu: {LOST}\n"  # with --json errors go where answers go
    assert (ended.returncode, ended.stderr) == (3, said)


def test_a_stream_that_python_throws_away_closed_is_no_error() -> None:
    under = io.StringIO()
    over = HeededStream(under, lambda stream, exc: None)
    under.close()
    over.flush()
    over.close()
    assert over.closed


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii:strict", rb"a \xb7 b \udcff"), ("utf-8:strict", rb"a " + "\u00b7".encode() + rb" b \udcff")],
)
def test_what_the_encoding_lacks_is_written_with_backslashes(encoding: str, shown: bytes) -> None:
    code = "from prefect_tpu.flows.streams import make_lasting; make_lasting(); print('a \\u00b7 b \\udcff')"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, env=environment)
    assert (ended.returncode, ended.stdout.strip()) == (0, shown), ended.stderr


@pytest.mark.slices
def test_the_command_line_ends_as_ever_where_nobody_reads(tmp_path: Path) -> None:
    shell = '"$0" run sh --json --name quiet --output "$1" 2>/dev/full -- -c "exit 0"'
    command = ["bash", "-c", shell, SHELL, str(tmp_path / "jobs")]
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["state"] == "succeeded"
