"""Is a slice of a cluster allowed? By quotas of its project in Google Cloud, and by the Kueue queue it is sent to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from prefect_tpu.infra.backends.jobset_queue_quota import queue_rulings
from prefect_tpu.infra.backends.jobset_quota_question import QuotaQuestion
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.clusters import ClusterName, GkeCluster
from prefect_tpu.infra.policy.quota import Ruling, cannot_tell, for_now

NODES_THERE = "nodes that are there already take no more of it"
NAME_IT = "Name the cluster as gke://project/location/cluster."


async def rulings_of_all(questions: Sequence[QuotaQuestion]) -> tuple[tuple[Ruling, ...], ...]:
    """Side by side."""
    return tuple(await asyncio.gather(*map(rulings, questions)))


async def rulings(question: QuotaQuestion) -> tuple[Ruling, ...]:
    """One for each source that counts; what no source tells is one that cannot tell."""
    if question.shape.platform == "cpu":
        return (cannot_tell("hosts without chips are under no quota that is looked at"),)
    asked = [_google(question), *([queue_rulings(question)] if question.queue else [])]
    return tuple(ruling for found in await asyncio.gather(*asked) for ruling in found)


async def _google(question: QuotaQuestion) -> tuple[Ruling, ...]:
    """A no decides only where nodes must be made: others may be there, or be made of a reservation."""
    try:
        place = await asyncio.to_thread(_place, question.cluster)
    except UsageError as exc:
        return (cannot_tell(str(exc)),)
    if place is None:
        name = f"cluster {question.cluster}" if question.cluster else "the cluster at hand"
        return (cannot_tell(f"in which project of Google Cloud {name} is, its name does not say", NAME_IT),)
    from prefect_tpu.infra.gcp.quotas import Need, google_rulings

    need = Need(
        shape=question.shape,
        chips=question.chips,
        capacity=question.capacity,
        project=place.project,
        location=place.location,
        zone=question.zone,
    )
    found = await google_rulings(need)
    return found if question.makes_pools else for_now(found, NODES_THERE)


def _place(cluster: str | None) -> GkeCluster | None:
    name = ClusterName.parse(cluster)
    if name.gke is None and name.context is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        from prefect_tpu.infra.gcp.kubeconfig import current_context

        name = ClusterName(context=current_context())
    return name.place
