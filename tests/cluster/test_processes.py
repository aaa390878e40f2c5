"""Programs that do not come up are named with their last words, and none outlives who started it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from control_plane import DidNotStart
from control_plane.processes import Processes, free_ports

STARTER = """
import sys
sys.path.append(sys.argv[1])
from pathlib import Path
from control_plane.processes import Processes
processes = Processes(Path("/bin"), Path(sys.argv[2]))
processes.start("sleep", ["600"])
print(processes.ids()["sleep"], flush=True)
sys.stdin.read()
"""


def _program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_program_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    _program(tmp_path, "etcd", "echo 'no such flag' >&2; exit 3")
    processes = Processes(tmp_path, tmp_path)
    processes.start("etcd", [])
    with pytest.raises(DidNotStart) as error:
        processes.until("etcd", lambda: False)
    assert str(error.value) == f"etcd ended with 3:\nno such flag\n(its log: {tmp_path / 'etcd.log'})"
    processes.stop()


def test_all_are_gone_after_the_stop(tmp_path: Path) -> None:
    _program(tmp_path, "one", "exec sleep 600")
    _program(tmp_path, "other", "exec sleep 600")
    processes = Processes(tmp_path, tmp_path)
    for name in ("one", "other"):
        processes.start(name, [])
    started = processes.ids().values()
    assert len(started) == 2
    processes.stop()
    assert not any(map(psutil.pid_exists, started))


def test_a_program_dies_with_who_started_it(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    words = [sys.executable, "-c", STARTER, str(Path(__file__).parent), str(tmp_path)]
    starter = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert starter.stdout and starter.stdin
    with starter.stdin, starter.stdout:
        program = psutil.Process(int(starter.stdout.readline()))
        wait_until(lambda: program.name() == "sleep", "the program itself")
        starter.kill()
        starter.wait()
    wait_until(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE, "the end of the program")


def test_ports_are_free_and_none_is_given_twice() -> None:
    ports = free_ports([str(number) for number in range(50)])
    assert len(set(ports.values())) == 50
