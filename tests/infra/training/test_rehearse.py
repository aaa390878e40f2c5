"""Drills strike the right host at the right step, once in a job's life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra import contract, layout
from prefect_tpu.infra.contract import Env, Scratch
from prefect_tpu.infra.drills import DrillFailure
from prefect_tpu.infra.training.context import context
from prefect_tpu.infra.training.rehearse import Rehearsal

LOOP = """
import prefect_tpu.infra.training.report as r
for step in range(100):
    r.report(step, loss=float(step))
print('survived')
"""


def start(code: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, **env},
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def runner() -> Any:
    """A process in the runner's place; it says how it ended."""
    process = start("import signal; signal.pause()")
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_a_failure_strikes_once_in_a_jobs_life(inside_job: Callable[..., Any], tmp_path: Path) -> None:
    inside_job(drills=("fail@step=5,host=0",))
    struck: list[str] = []
    first, next_attempt = Rehearsal(context()), Rehearsal(context())
    first.strike(4, lambda: struck.append("4"))
    with pytest.raises(DrillFailure, match=r"fail@step=5,host=0 struck at step 7"):
        first.strike(7, lambda: struck.append("7"))
    first.strike(8, lambda: struck.append("8"))
    next_attempt.strike(9, lambda: struck.append("9"))
    assert struck == ["7"]
    note = contract.read_json((tmp_path / "out" / "digits" / layout.drill(0)).read_bytes(), "note")
    assert (note["step"], note["attempt"]) == (7, 3)


def test_another_hosts_drill_leaves_this_one_alone(inside_job: Callable[..., Any], tmp_path: Path) -> None:
    inside_job(host=1, hosts=2, drills=("fail@step=5,host=0",))
    Rehearsal(context()).strike(9, lambda: None)
    assert not (tmp_path / "out" / "digits" / layout.drill(0)).exists()


def test_a_preemption_is_a_notice_to_the_runner(
    inside_job: Callable[..., Any], runner: subprocess.Popen[str], tmp_path: Path
) -> None:
    inside_job(drills=("preempt@step=60",))
    program = start(LOOP, **{Env.RUNNER: str(runner.pid)})
    out, _ = program.communicate(timeout=60)
    assert runner.wait(timeout=60) == -signal.SIGTERM
    assert (program.returncode, out.strip()) == (0, "survived")
    assert progress(tmp_path)["step"] == 99


def test_a_killed_host_is_gone_with_its_runner(
    inside_job: Callable[..., Any], runner: subprocess.Popen[str], tmp_path: Path
) -> None:
    inside_job(drills=("kill@step=60",))
    program = start(LOOP, **{Env.RUNNER: str(runner.pid)})
    out, _ = program.communicate(timeout=60)
    assert (program.returncode, out) == (-signal.SIGKILL, "")
    assert runner.wait(timeout=60) == -signal.SIGKILL
    assert progress(tmp_path)["step"] == 60 and progress(tmp_path)["metrics"] == {"loss": 60.0}


def progress(tmp_path: Path) -> dict[str, Any]:
    return contract.read_json((tmp_path / "scratch" / Scratch.PROGRESS).read_bytes(), "progress")
