"""Who drives a job that nobody waits for? A process of its own, started here, and whether it got so far."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.job import JobResult, SliceJob
from prefect_tpu.infra.job_checks import OWN_VARIABLES
from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driven import is_driven
from prefect_tpu.infra.launcher.status import pause_between_looks
from prefect_tpu.infra.places import driver_log
from prefect_tpu.infra.state import JobState
from prefect_tpu.infra.storage import Storage

START_SECONDS = 60.0  # from the start of a driver to its lease; a second on a quiet machine
LOOK_SECONDS = 0.05
MOST_LINES = 5  # of the log, in a message


def start_driver(storage: Storage, job: SliceJob | None = None) -> None:
    """Start a driver and return once it drives, or somebody else does, or the job has a new end.

    Args:
        storage: the job's folder.
        job: as it is asked for now; None to bring it to the end it was asked for.

    Raises `PlatformError`, with the end of the driver's log, where it does not get so far.
    """
    before, log = history.read_result(storage), driver_log(storage, os.environ)
    begins = log.stat().st_size if log.exists() else 0
    command = [sys.executable, "-P", "-m", "prefect_tpu.flows.drive", storage.url]
    environment = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            started = subprocess.run(
                command,
                input=b"" if job is None else job.to_json(),
                stdout=subprocess.PIPE,
                stderr=file,
                env=environment,
                start_new_session=True,
            )
    except OSError as exc:
        raise PlatformError(f"A driver for {storage.url} cannot be started: {exc.strerror or exc}.") from exc
    _wait(storage, int(started.stdout or 0), before, begins)


def see_to_it(storage: Storage, job: SliceJob) -> None:
    """Write down what is asked for, and start a driver unless somebody drives it or it has succeeded."""
    history.enter(storage, job)
    end = history.read_result(storage)
    if not (is_driven(storage) if end is None else end.state == JobState.SUCCEEDED):
        start_driver(storage, job)


def _wait(storage: Storage, pid: int, before: JobResult | None, begins: int) -> None:
    give_up, pause = time.monotonic() + START_SECONDS, pause_between_looks(storage, LOOK_SECONDS)
    while True:
        lives = _lives(pid)  # first: what it does before its end is seen below
        end = history.read_result(storage)
        if end is None and is_driven(storage) or end is not None and end != before:
            return
        if not lives:
            raise _failed(storage, "ended before it drove the job", begins)
        if time.monotonic() > give_up:
            raise _failed(storage, f"does not drive the job after {START_SECONDS:.0f} s", begins)
        time.sleep(pause)


def _lives(pid: int) -> bool:
    try:
        return pid > 0 and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _failed(storage: Storage, what: str, begins: int) -> PlatformError:
    log = driver_log(storage, os.environ)
    said = log.read_bytes()[begins:].decode(errors="replace").splitlines()[-MOST_LINES:]
    last = "\n".join(said) or "nothing"
    return PlatformError(f"The driver of {storage.url} {what}. Its log is {log}; it says:\n{last}")
