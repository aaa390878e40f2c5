"""`python -m prefect_tpu.infra.host.command`: the command of a flow, in this process's place, on the leader."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from prefect_tpu.infra.contract import Env, ExitCode
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan

NOT_RUN = 127  # as shells say that a command is not there


def main() -> None:
    """Become it; it is killed when this process's parent is."""
    die_with_parent()
    plan = HostPlan.from_json(Path(os.environ[Env.PLAN]).read_bytes())
    os.environ.pop(Env.PARENT, None)  # of this process alone
    become(plan.program)


def become(program: Program) -> NoReturn:
    """Run the command in this process's place; `python` is the plan's interpreter, whatever the PATH has."""
    words = [sys.executable if program.target == "python" else program.target, *program.arguments]
    try:
        os.execvp(words[0], words)
    except OSError as exc:
        sys.stderr.write(f"{words[0]}: {exc.strerror}\n")
        os._exit(NOT_RUN)


def die_with_parent() -> None:
    """On Linux: be killed when the runner is, or whoever of ours started this, so that a killed host leaves nothing."""
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    parent_death_signal = 1  # PR_SET_PDEATHSIG, prctl(2)
    ctypes.CDLL(None, use_errno=True).prctl(parent_death_signal, signal.SIGKILL)
    if os.getppid() != int(os.environ.get(Env.PARENT) or os.environ[Env.RUNNER]):  # it died before the call
        os._exit(ExitCode.LOST_PEER)


if __name__ == "__main__":
    main()
