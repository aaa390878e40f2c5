"""Are the offers of a job allowed at all? All are asked about before the first attempt.

What no source says blocks none.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from prefect_tpu.infra.backends.base import Backend
from prefect_tpu.infra.errors import Failure, FailureKind
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.policy.failure_kinds import failure
from prefect_tpu.infra.policy.offers import named, offers_of
from prefect_tpu.infra.policy.quota import Ruling, is_hopeless
from prefect_tpu.infra.state import Offer

AT_ONCE = 8  # offers that are asked about side by side

Rulings = Mapping[Offer, tuple[Ruling, ...]]


async def ask_all(backend: Backend, job: SliceJob, output: str) -> Rulings:
    """What every source says of every offer, in their order."""
    found: dict[Offer, tuple[Ruling, ...]] = dict.fromkeys(offers_of(job), ())
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def ask(offer: Offer) -> None:
        async with limiter:
            found[offer] = await backend.limits(job, offer, output)

    async with anyio.create_task_group() as group:
        for offer in tuple(found):
            group.start_soon(ask, offer)
    return found


def told(found: Rulings) -> tuple[str, ...]:
    """A line for each ruling."""
    return tuple(f"{named(offer, found)} {ruling}" for offer, rulings in found.items() for ruling in rulings)


def refusal(found: Rulings) -> Failure | None:
    """Why none can ever be had, with what decides for each; None where one might be."""
    if not all(is_hopeless(rulings) for rulings in found.values()):
        return None
    decisive = {offer: tuple(one for one in rulings if is_hopeless((one,))) for offer, rulings in found.items()}
    lines = told(decisive)
    return failure(FailureKind.NO_QUOTA, f"No offer fits. {' '.join(lines)}", evidence=lines)
