"""The end of a program's process: peers may finish, threads may not keep it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit, sys, threading
from concurrent.futures import ThreadPoolExecutor
from prefect_tpu.infra.host.leaving import leave

atexit.register(lambda: print("handlers ran"))
kind, code = sys.argv[1], int(sys.argv[2])
if kind == "stuck":
    threading.Thread(target=threading.Event().wait, name="uploader").start()
if kind == "daemon":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if kind == "pool":
    pool = ThreadPoolExecutor()
    pool.submit(int).result()
leave(code, patience=0.5 if kind == "stuck" else 60.0)
"""


def run(kind: str, code: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, str(code)], capture_output=True, text=True, timeout=50, check=False
    )


@pytest.mark.parametrize("kind", ["plain", "daemon", "pool"])
def test_after_a_success_exit_handlers_run_and_nothing_is_waited_for(kind: str) -> None:
    ended = run(kind, 0)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "handlers ran\n", "")


def test_threads_left_behind_are_named_and_left() -> None:
    ended = run("stuck", 0)
    assert (ended.returncode, ended.stdout) == (0, "handlers ran\n")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("prefect-tpu: the program has returned, and threads of it still run after 0.5 s: 'uploader'")
    assert line.endswith("join them before you return, or make them daemons.")


@pytest.mark.parametrize(
    ("error", "code"),
    [("None", 0), ("SystemExit()", 0), ("SystemExit(3)", 3), ("SystemExit('no')", 1), ("OSError()", 1), ("Empty()", 1)],
)
def test_a_fork_leaves_with_the_code_of_a_script(error: str, code: int) -> None:
    """Also by an exception that counts as false, as one with a length may."""
    text = (
        "from prefect_tpu.infra.host.leaving import leave_as_fork\n"
        "class Empty(Exception):\n    def __len__(self): return 0\n"
        f"leave_as_fork({error})"
    )
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, check=False).returncode == code


@pytest.mark.parametrize(("kind", "code"), [("plain", 80), ("stuck", 83), ("stuck", 81)])
def test_after_anything_else_it_is_gone_at_once(kind: str, code: int) -> None:
    ended = run(kind, code)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")
