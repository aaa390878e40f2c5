"""Task: wait for a slice for one attempt."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.tasks.reporting import logged


@task(name="provision_slice", cache_policy=NO_CACHE, persist_result=False)
def provision_slice(driving: Driving) -> str | None:
    """What was got, in a person's words; None where there is nothing to get any more."""
    with logged(driving) as log:
        offer = driving.provision()
        if offer is not None:
            log.info("Slice: %s", offer)
        return offer
