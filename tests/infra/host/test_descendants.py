"""Whatever a program leaves behind ends with its runner, also what made itself a daemon."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to an ancestor")

# A runner: its child starts a daemon, with an empty environment in a session of its own.
RUNNER = """
import os, subprocess, sys, time
from pathlib import Path
from prefect_tpu.infra.host import descendants

folder = Path(sys.argv[1])
daemon = f"setsid sh -c 'echo $$ > {folder}/pid.tmp; mv {folder}/pid.tmp {folder}/pid; exec sleep {sys.argv[2]}' &"
descendants.adopt()
then = "exec sleep 600" if sys.argv[3] == "bury" else "exit 7"
program = subprocess.Popen(["sh", "-c", f"({daemon}); {then}"], env={})
while not (folder / "pid").exists():
    time.sleep(0.01)
pid = int((folder / "pid").read_text())
if sys.argv[3] == "end":
    os.waitid(os.P_PID, program.pid, os.WEXITED | os.WNOWAIT)
    descendants.bury(program.pid)
    assert program.wait() == 7, "its own end is left to who waits for it"
    descendants.end()
else:
    while os.path.exists(f"/proc/{pid}"):
        descendants.bury(program.pid)
        time.sleep(0.01)
    program.kill()
    program.wait()
print(pid)
"""


def run(folder: Path, seconds: float, how: str) -> int:
    ended = subprocess.run(
        [sys.executable, "-c", RUNNER, str(folder), str(seconds), how],
        capture_output=True, text=True, timeout=50, check=True,
    )  # fmt: skip
    return int(ended.stdout)


def test_a_daemon_with_an_empty_environment_is_ended(tmp_path: Path) -> None:
    assert not psutil.pid_exists(run(tmp_path, 600, "end"))


def test_an_orphan_that_ends_leaves_no_zombie(tmp_path: Path) -> None:
    assert not psutil.pid_exists(run(tmp_path, 0.2, "bury"))
