"""How does a job come to its end that was left behind, and that nobody will run again?"""

from __future__ import annotations

from prefect_tpu.infra.launcher import history
from prefect_tpu.infra.launcher.driving import drive_to_end, driving
from prefect_tpu.infra.launcher.permits import Permits
from prefect_tpu.infra.storage import Storage


def end_left_behind(storage: Storage, reason: str, permits: Permits) -> bool:
    """Stop a job that was left behind and has no end: in a cluster its hosts would work on, unseen and paid for.

    False where there was nothing to stop.
    """
    job = history.read_job(storage)
    if job is None or history.read_result(storage) is not None:
        return False
    history.ask_to_stop(storage, reason)
    with driving(job, storage.url, goes_on=False, permits=permits) as driven:
        drive_to_end(driven)
    return True
