"""Task: give the slice back, unless the next attempt goes on on it."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.tasks.reporting import logged


@task(name="release_slice", cache_policy=NO_CACHE, persist_result=False)
def release_slice(driving: Driving) -> None:
    """Safe to repeat; what this task cannot do any more the end of the drive does."""
    with logged(driving) as log:
        kept = driving.release()
        log.info("Slice kept: %s" if kept else "Slice released%s", kept or "")
