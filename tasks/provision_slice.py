"""Task: wait for a slice for one attempt."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.errors import JobFailed
from prefect_tpu.infra.launcher.driving import Driving
from prefect_tpu.tasks.failing import failing_in_words
from prefect_tpu.tasks.reporting import logged


@task(name="provision_slice", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def provision_slice(driving: Driving) -> str | None:
    """What was got, in a person's words; None where nothing is wanted any more.

    Raises `JobFailed` where nothing is to be had, and the job ends by that.
    """
    with logged(driving) as log:
        offer = driving.provision()
        if offer is not None:
            log.info("Slice: %s", offer)
        elif (why := driving.refusal()) is not None:
            raise JobFailed(driving.driver.job.name, why)
        return offer
