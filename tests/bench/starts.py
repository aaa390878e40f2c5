"""How fast do our commands, imports and host runners start?"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ratios import Contender, Experiment
from sides import TOOL

from prefect_tpu.infra import layout
from prefect_tpu.infra.host_archive import FILE, host_archive
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.storage import LocalStorage

PYTHON = (sys.executable, "-P", "-c")


def shell() -> Experiment:
    return Experiment(
        against="`prefect --help`",
        other=_taking([str(Path(TOOL).with_name("prefect")), "--help"]),
        contenders=(
            Contender(
                what="`prefect-tpu --help`",
                how="From the start of the command to its end.",
                seconds=_taking([TOOL, "--help"]),
                goal_seconds=0.3,
            ),
            Contender(
                what="`import prefect_tpu`",
                how="In a fresh interpreter.",
                seconds=_taking([*PYTHON, "import prefect_tpu"]),
            ),
        ),
    )


def flow() -> Experiment:
    return Experiment(
        against="`from prefect import flow`",
        other=_taking([*PYTHON, "from prefect import flow"]),
        contenders=(
            Contender(
                what="import of the flow `train`",
                how="In a fresh interpreter.",
                seconds=_taking([*PYTHON, "import prefect_tpu.flows.train"]),
            ),
        ),
    )


def runner(folder: Path) -> Experiment:
    attempts = itertools.count(1)
    return Experiment(
        against="bare Python",
        other=_taking([*PYTHON, "pass"]),
        contenders=(
            Contender(
                what="a host runner",
                how="From its start to its record, with a program that does nothing, in a process of its own.",
                seconds=lambda: _host(folder / "runner", next(attempts)),
            ),
            Contender(
                what="a host runner from the archive",
                how="The same as a pod starts it: from the file that travels, which no Python has compiled before.",
                seconds=lambda: _pod(folder / "pod", next(attempts)),
            ),
            Contender(
                what="import of the host runner",
                how="In a fresh interpreter.",
                seconds=_taking([*PYTHON, "import prefect_tpu.infra.host.runner"]),
            ),
        ),
    )


def _host(output: Path, attempt: int) -> float:
    """One host of an attempt, as a backend starts it."""
    storage = LocalStorage(output)
    storage.put(layout.plan(attempt), _plan(output, attempt).to_json())
    command = [sys.executable, "-P", "-m", "prefect_tpu.infra.host", str(storage.path(layout.plan(attempt))), "0"]
    return _taking(command)()


def _pod(output: Path, attempt: int) -> float:
    """One host of an attempt, as a pod starts it, with an interpreter that has nothing of ours."""
    storage, archive = LocalStorage(output), output / FILE
    plan = replace(_plan(output, attempt), scratch=str(output / "disk"), orphan_after=None, backend="jobset")
    storage.put(layout.plan(attempt), plan.to_json())
    archive.write_bytes(host_archive().raw)
    python = getattr(sys, "_base_executable", sys.executable)
    return _taking([python, str(archive), str(storage.path(layout.plan(attempt))), "0"])()


def _plan(output: Path, attempt: int) -> HostPlan:
    return HostPlan(
        job="bench", attempt=attempt, accelerator="cpu", output=str(output), hosts=1, devices_per_host=1,
        platform="cpu", coordinator="127.0.0.1:1", addresses=("127.0.0.1",), checkpoint_every=600.0, grace=30.0,
        orphan_after=60.0, join_timeout=60.0, python=sys.executable,
        program=Program(kind="module", target="platform:python_version"),
    )  # fmt: skip


def _taking(command: Sequence[str]) -> Callable[[], float]:
    def seconds() -> float:
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
        return time.perf_counter() - began

    return seconds
