"""Does anybody drive this job now?"""

from __future__ import annotations

import time

from prefect_tpu.infra.launcher.lease import Pulse, driver_of, sign_of_life
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
