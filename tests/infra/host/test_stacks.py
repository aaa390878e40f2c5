"""What a silent program does, read from the stacks that it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from prefect_tpu.infra.contract import Activity, Scratch
from prefect_tpu.infra.host.stacks import Stacks, activity, is_waiting, traceback, where

LIBRARY = "/usr/lib/python3.11"
PACKAGES = "/home/me/venv/lib/python3.11/site-packages"
OURS = str(Path(sys.modules[Stacks.__module__].__file__ or "").parents[1])
WORK = "/out/digits/attempts/1/hosts/0/scratch/work"


def thread(*frames: tuple[str, str], current: bool = False) -> str:
    lines = [f'  File "{path}", line 7 in {name}' for path, name in frames]
    return "\n".join([f"{'Current thread' if current else 'Thread'} 0x00007f0a (most recent call first):", *lines, ""])


BEGIN = ((f"{OURS}/host/program.py", "main"), ("<frozen runpy>", "_run_code"))
IDLE = thread((f"{LIBRARY}/concurrent/futures/thread.py", "_worker"), (f"{LIBRARY}/threading.py", "_bootstrap"))
OWN = (f"{WORK}/train.py", "main")


def main_thread(*frames: tuple[str, str]) -> str:
    return thread(*frames, *BEGIN, current=True)


COMPILES = main_thread(
    (f"{PACKAGES}/jax/_src/compiler.py", "backend_compile_and_load"),
    (f"{PACKAGES}/jax/_src/pjit.py", "cache_miss"),
    OWN,
)
LOWERS = main_thread((f"{PACKAGES}/jax/_src/interpreters/mlir.py", "lower_jaxpr_to_module"), OWN)
WAITS_FOR_HOSTS = main_thread(
    (f"{PACKAGES}/jax/experimental/multihost_utils.py", "broadcast_one_to_all"),
    (f"{OURS}/training/agreement.py", "from_leader"),
    (f"{OURS}/training/checkpoints.py", "save"),
    OWN,
)
WAITS_FOR_A_SAVE = main_thread((f"{LIBRARY}/threading.py", "join"), (f"{OURS}/training/store.py", "settle"), OWN)
SAVES_BEHIND = thread((f"{PACKAGES}/orbax/checkpoint/_src/checkpointers/async_checkpointer.py", "_thread_func"))
COMPUTES = main_thread((f"{PACKAGES}/jax/_src/array.py", "_value"), OWN)
SLEEPS = main_thread((f"{WORK}/data.py", "read"), OWN)


@pytest.mark.parametrize(
    ("dump", "answer"),
    [
        ("", Activity.UNKNOWN),
        (IDLE + "\n" + SLEEPS, Activity.UNKNOWN),
        (COMPUTES, Activity.UNKNOWN),
        (WAITS_FOR_HOSTS, Activity.UNKNOWN),
        (IDLE + "\n" + COMPILES, Activity.COMPILING),
        (LOWERS, Activity.COMPILING),
        (WAITS_FOR_A_SAVE, Activity.SAVING),
        (SAVES_BEHIND + "\n" + SLEEPS, Activity.SAVING),
        (SAVES_BEHIND + "\n" + COMPILES, Activity.COMPILING),
        (main_thread((f"{WORK}/compiler.py", "backend_compile")), Activity.UNKNOWN),
    ],
)
def test_what_it_is_at(dump: str, answer: Activity) -> None:
    assert activity(dump) is answer


@pytest.mark.parametrize(
    ("dump", "place", "waits"),
    [
        ("", "", False),
        ("no stacks at all", "", False),
        (SLEEPS, "data.py:7 in read", False),
        (IDLE + "\n" + COMPUTES, "train.py:7 in main", True),
        (WAITS_FOR_HOSTS + "\n" + IDLE, "train.py:7 in main", True),
        (main_thread((f"{LIBRARY}/socket.py", "recv")), "socket.py:7 in recv", False),
        (IDLE + "\n" + thread(OWN, *BEGIN), "train.py:7 in main", False),
        (f"Process 7:\n{SLEEPS}\nProcess 8:\n{COMPUTES}", "data.py:7 in read", False),
    ],
)
def test_where_its_own_code_stands(dump: str, place: str, waits: bool) -> None:
    assert (where(dump), is_waiting(dump)) == (place, waits)


def test_the_main_stack_is_shown_as_python_shows_one() -> None:
    lines = traceback(f"Process 7:\n{IDLE}\n{SLEEPS}").splitlines()
    assert lines[0] == "Stack of the main thread (most recent call last):"
    assert lines[-1] == f'  File "{WORK}/data.py", line 7, in read'
    assert len(lines) == 5 and traceback("") == ""


# -- real processes ----------------------------------------------------------------------------------

PROGRAM = """
import pathlib, sys, time
from prefect_tpu.infra.scratch import answer_with_stacks
def stand(): time.sleep(600)
answer_with_stacks(pathlib.Path(sys.argv[1]))
answer_with_stacks(pathlib.Path(sys.argv[1]))
stand()
"""
ECHO = """
import pathlib, sys
from prefect_tpu.infra.scratch import answer_with_stacks
answer_with_stacks(pathlib.Path(sys.argv[1]))
for line in sys.stdin: print(line, end='', flush=True)
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process in a group of its own, killed afterwards."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*command: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, start_new_session=True, stdin=pipe, stdout=pipe))
        return started[-1]

    yield begin
    for process in started:
        with process:
            process.kill()


def echoes(process: subprocess.Popen[bytes]) -> bool:
    """Whether it lives, and has heard every signal that it was sent before."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"here\n")
    process.stdin.flush()
    return process.stdout.readline() == b"here\n"


def test_a_process_that_can_answer_says_where_it_stands_whenever_it_is_asked(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]], wait_until: Callable[..., None]
) -> None:
    process = start(sys.executable, "-c", PROGRAM, str(tmp_path))
    wait_until((tmp_path / Scratch.STACKS.format(pid=process.pid)).exists, "its word")
    stacks = Stacks(tmp_path, process.pid)
    assert stacks.read() == ""
    for _ in range(2):
        stacks.ask()
        wait_until(lambda: "in <module>" in stacks.read(), "the stacks")
        assert where(stacks.read()) == "<string>:4 in stand"
        assert stacks.read().startswith(f"Process {process.pid}:\nCurrent thread") and stacks.read().count("stand") == 1
    assert process.poll() is None


def test_only_those_are_asked_that_can_answer_and_belong_to_the_program(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]], wait_until: Callable[..., None]
) -> None:
    """The signal would end them: one that became another program, one of another group, one that has ended."""
    became, stranger, ended = start("cat"), start(sys.executable, "-c", ECHO, str(tmp_path)), start("true")
    ended.wait()
    wait_until((tmp_path / Scratch.STACKS.format(pid=stranger.pid)).exists, "its word")
    for process in (became, ended):
        (tmp_path / Scratch.STACKS.format(pid=process.pid)).touch()
    stacks = Stacks(tmp_path, became.pid)
    stacks.ask()
    assert echoes(became) and echoes(stranger) and stacks.read() == ""
    assert not (tmp_path / Scratch.STACKS.format(pid=ended.pid)).exists()


def test_what_is_no_process_or_no_file_does_not_answer(tmp_path: Path) -> None:
    (tmp_path / Scratch.STACKS.format(pid=10**30)).touch()
    (tmp_path / Scratch.STACKS.format(pid=os.getpid())).mkdir()
    stacks = Stacks(tmp_path, os.getpgid(0))
    stacks.ask()
    assert stacks.read() == ""
