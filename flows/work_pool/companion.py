"""Who sees to a run that was submitted without a worker? A process of its own, until the run is over.

It outlives the caller. Where workers serve the pool it is one of many: whoever holds the lease of the run's job acts.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import anyio
import anyio.to_thread
import psutil
from prefect.settings import get_current_settings

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job_checks import OWN_VARIABLES
from prefect_tpu.infra.places import data_folder

MODULE = "prefect_tpu.flows.work_pool.seeing_to"
START_SECONDS = 180.0  # to import Prefect and submit the run; some seconds on a quiet machine
LEAVE_SECONDS = 60.0
LOOK_SECONDS = 0.2
KEPT_SECONDS = 30 * 86_400.0  # of a log that nobody writes to any more
MOST_LINES = 10  # of the log, in a message


async def start_companion(work_pool: str, flow_run_id: UUID, job_variables: Mapping[str, Any]) -> psutil.Process | None:
    """Start it, and return once the run is submitted; the process, unless it has ended already.

    job_variables: of this submission.

    Raises `PlatformError`, with the end of its log, where it does not get so far.
    """
    pid = await anyio.to_thread.run_sync(_start, work_pool, flow_run_id, json.dumps(dict(job_variables)))
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid)
    return None


async def wait_until_gone(companion: psutil.Process | None) -> None:
    """Once the run is over that is soon: then its slice is free and nothing of it is left. Within bounds."""
    with anyio.move_on_after(LEAVE_SECONDS):
        while companion is not None and _lives(companion):
            await anyio.sleep(LOOK_SECONDS)


def _lives(companion: psutil.Process) -> bool:
    """Not every machine clears orphans away that have ended."""
    try:
        return companion.is_running() and companion.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def log_of(flow_run_id: UUID) -> Path:
    """What the companion of a run says."""
    return data_folder(os.environ) / "companions" / f"{flow_run_id}.log"


def _start(work_pool: str, flow_run_id: UUID, job_variables: str) -> int:
    log = log_of(flow_run_id)
    command = [sys.executable, "-P", "-m", MODULE, work_pool, str(flow_run_id)]
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        _clear_away(log.parent)
        with log.open("ab") as file:
            begins = file.tell()
            status, said_pid = _begun(command, job_variables.encode(), file)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PlatformError(f"Nothing sees to flow run {flow_run_id}: {exc}. Its log is {log}.") from exc
    if status:
        said = log.read_bytes()[begins:].decode(errors="replace").splitlines()[-MOST_LINES:]
        raise PlatformError(
            f"What was to see to flow run {flow_run_id} ended before it was submitted. Its log is {log}; it says:\n"
            + "\n".join(said)
        )
    return int(said_pid)


def _begun(command: list[str], told: bytes, log: IO[bytes]) -> tuple[int, bytes]:
    """How what is started ends, whose child goes on, and what it says. Where that takes too long both are ended."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=_environment(),
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(told, START_SECONDS)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, said


def _clear_away(folder: Path) -> None:
    """Logs that nobody asks for any more."""
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if time.time() - log.stat().st_mtime > KEPT_SECONDS:
                log.unlink()


def _environment() -> dict[str, str]:
    """The caller's, with the settings that hold for it now; without what says which host of a job it is."""
    kept = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    own = {name: value for name, value in kept.items() if not name.startswith("PREFECT__")}
    return {**get_current_settings().to_environment_variables(exclude_unset=True), **own}
