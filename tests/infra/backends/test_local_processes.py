"""Every process of an attempt is found by its mark, however deep, and no other one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from prefect_tpu.infra.backends.local_processes import is_alive, kill_marked, marked, notice_withheld
from prefect_tpu.infra.contract import Env

# Says its own and its grandchild's id; the grandchild leads a session of its own and has no parent left.
FAMILY = """
import subprocess, sys
grandchild = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=subprocess.DEVNULL)
print(grandchild.pid, flush=True)
sys.stdin.read()
"""


@dataclass
class Family:
    mark: str
    child: subprocess.Popen[str]
    grandchild: psutil.Process


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    mark = f"{tmp_path}/digits/1"
    child = subprocess.Popen(
        [sys.executable, "-c", FAMILY],
        env={**os.environ, Env.ATTEMPT: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    grandchild = psutil.Process(int(child.stdout.readline()))
    while Env.ATTEMPT not in grandchild.environ():  # the kernel shows it a moment after the program has begun
        pass
    try:
        yield Family(mark=mark, child=child, grandchild=grandchild)
    finally:
        child.kill()
        child.communicate()
        if grandchild.is_running():
            grandchild.kill()


def ids(mark: str) -> set[int]:
    return {process.pid for process in marked(mark)}


def test_a_grandchild_in_a_session_of_its_own_is_found_and_killed(family: Family) -> None:
    assert ids(family.mark) == {family.child.pid, family.grandchild.pid}
    assert kill_marked(family.mark) == 2
    assert ids(family.mark) == set()
    assert family.child.wait() == -signal.SIGKILL
    assert not family.grandchild.is_running() or family.grandchild.status() == psutil.STATUS_ZOMBIE
    assert kill_marked(family.mark) == 0


def test_a_grandchild_whose_parent_is_dead_is_still_found(family: Family) -> None:
    family.child.kill()
    family.child.wait()
    assert ids(family.mark) == {family.grandchild.pid}
    assert kill_marked(family.mark) == 1


def test_another_attempts_processes_are_left_alone(family: Family) -> None:
    for other in (family.mark + "1", family.mark[:-1], ""):
        assert kill_marked(other) == 0
    assert is_alive(family.child.pid, family.mark)
    assert is_alive(family.grandchild.pid, family.mark)


def test_an_id_alone_says_nothing(family: Family) -> None:
    assert not is_alive(os.getpid(), family.mark)
    assert not is_alive(family.child.pid, family.mark + "1")
    family.child.kill()
    os.waitid(os.P_PID, family.child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not collected yet
    assert not is_alive(family.child.pid, family.mark)
    family.child.wait()
    assert not is_alive(family.child.pid, family.mark)


def test_a_notice_waits_until_its_receiver_can_hear_it() -> None:
    hears = "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print(flush=True); sys.stdin.readline();"
    unblocks = "signal.pthread_sigmask(signal.SIG_UNBLOCK, {15}); sys.exit(1)"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with notice_withheld():
        child = subprocess.Popen(
            [sys.executable, "-c", hears + unblocks], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    try:
        child.terminate()  # before it has begun: without the block it would be gone
        assert child.stdout and child.stdout.readline() == "\n"
        child.communicate("go\n", timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 7
