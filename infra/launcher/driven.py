"""Does anybody drive this job now? If not, what is left of it can be ended here."""

from __future__ import annotations

import time

from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.launcher.lease import Pulse, driver_of, sign_of_life
from prefect_tpu.infra.launcher.permits import Permits
from prefect_tpu.infra.launcher.status import pause_between_looks
from prefect_tpu.infra.storage import Storage

LOOK_SECONDS = 0.05


def is_driven(storage: Storage) -> bool:
    """Whether a live process drives the job; one on another machine is watched until it renews its lease or lapses."""
    driver = driver_of(storage)
    if driver is None or driver.is_here:
        return driver is not None
    first, pulse = sign_of_life(storage), Pulse(storage, time.monotonic)
    pause = pause_between_looks(storage, LOOK_SECONDS)
    while pulse.driver() is not None:
        if sign_of_life(storage) != first:
            return True
        time.sleep(pause)
    return False


def end_left_behind(storage: Storage, reason: str, permits: Permits) -> None:
    """Stop a job that was left behind and has no end: in a cluster its hosts would work on, unseen and paid for."""
    job = history.read_job(storage)
    if job is None or history.read_result(storage) is not None:
        return
    history.ask_to_stop(storage, reason)
    with driving(job, storage.url, goes_on=False, permits=permits) as driven:
        drive_to_end(driven)
