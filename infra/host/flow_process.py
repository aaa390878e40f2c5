"""The command of a flow on its leader: how it starts, is told to leave, and is ended as it stands."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys

from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.host.assignment import own_archive
from prefect_tpu.infra.host.command import NOT_RUN
from prefect_tpu.infra.host.environment import flow_environment
from prefect_tpu.infra.host.jax_guard import guarded
from prefect_tpu.infra.host.prefect_remnants import clear_away
from prefect_tpu.infra.plan import HostPlan


class FlowProcess:
    """Used by the thread that starts it, which must live as long as this process."""

    def __init__(self, plan: HostPlan) -> None:
        self._plan = plan
        self._process: subprocess.Popen[bytes] | None = None
        self._path: str | None = None
        self._is_told = False

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.returncode

    @property
    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    @property
    def was_there(self) -> bool:
        """Whether there was a command to run; its own code may be the same as that of one that is not there."""
        target = self._plan.program.target
        return self.returncode != NOT_RUN or target == "python" or shutil.which(target, path=self._path) is not None

    def start(self) -> None:
        """In a group of its own. Its output goes where this process's goes."""
        environment = flow_environment(self._plan, os.environ, without=own_archive() if _has_ours_installed() else None)
        self._path = environment.get("PATH")
        clear_away(environment)  # of an attempt whose whole host was killed here
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "prefect_tpu.infra.host.command"],
            env={**guarded(self._plan, environment), Env.PARENT: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def tell(self) -> None:
        """SIGTERM, once, and to the command alone: Prefect's supervisor and its engine would each react by itself."""
        if self._process is not None and not self._is_told:
            self._is_told = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """As it stands, at once: nothing of the flow shall run on a slice that is half gone.

        The supervisor first: it would report its engine's end as a crash of the run.
        """
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def _has_ours_installed() -> bool:
    """Then the flow has all of it, and not only what came for hosts."""
    from importlib import metadata  # slow, and only for a flow

    try:
        metadata.distribution("prefect-tpu")
    except metadata.PackageNotFoundError:
        return False
    return True
