"""Task: is there an offer among the preferred ones that the platform allows at all?"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from anyio.from_thread import start_blocking_portal
from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from prefect_tpu.infra.backends import open_backend
from prefect_tpu.infra.backends.base import Backend
from prefect_tpu.infra.errors import FailureKind, JobFailed
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.policy.failures import failure
from prefect_tpu.infra.policy.offers import named, offers_of
from prefect_tpu.infra.policy.quota import Ruling, is_hopeless
from prefect_tpu.infra.state import Offer
from prefect_tpu.tasks.failing import failing_in_words

AT_ONCE = 8  # offers that are asked about side by side

Rulings = Mapping[Offer, tuple[Ruling, ...]]


@task(name="check_quota", task_run_name="check_quota", cache_policy=NO_CACHE, persist_result=False)
@failing_in_words
def check_quota(job: SliceJob, output: str) -> None:
    """Raises `JobFailed` (no_quota), naming what is missing for each offer, where none can ever be had.

    What is not known, or is only used up for now, keeps no job from being tried. Quota says nothing of capacity.
    """
    log = get_run_logger()
    with start_blocking_portal() as portal:
        found: Rulings = portal.call(_asked, open_backend(job.backend), job, output)
    for offer, rulings in found.items():
        for ruling in rulings:
            log.info("%s %s", named(offer, found), ruling)
    if all(is_hopeless(rulings) for rulings in found.values()):
        short = [f"{named(offer, found)} {ruling}" for offer, rulings in found.items() for ruling in no_of(rulings)]
        raise JobFailed(job.name, failure(FailureKind.NO_QUOTA, f"No offer fits. {' '.join(short)}", evidence=short))


async def _asked(backend: Backend, job: SliceJob, output: str) -> Rulings:
    """All offers, in their order."""
    found: dict[Offer, tuple[Ruling, ...]] = dict.fromkeys(offers_of(job), ())
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def ask(offer: Offer) -> None:
        async with limiter:
            found[offer] = await backend.limits(job, offer, output)

    async with anyio.create_task_group() as group:
        for offer in found:
            group.start_soon(ask, offer)
    return found


def no_of(rulings: tuple[Ruling, ...]) -> tuple[Ruling, ...]:
    """Those that decide."""
    return tuple(ruling for ruling in rulings if is_hopeless((ruling,)))
