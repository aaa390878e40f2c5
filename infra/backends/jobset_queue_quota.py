"""Does a Kueue queue allow a slice? Its cluster queue's share per flavor, and how much of that is used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from prefect_tpu.infra.backends.jobset_quota_question import QuotaQuestion
from prefect_tpu.infra.errors import PrefectTpuError
from prefect_tpu.infra.gcp.errors import Forbidden, NotFound
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.placement import GPU, TPU, chip_labels
from prefect_tpu.infra.gcp.resources import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, Resource
from prefect_tpu.infra.policy.quota import Allowance, Fit, Ruling, best, cannot_tell, judge

Object = Mapping[str, Any]
SECONDS = 10.0
LOOK = "See deployments/gke/rbac-cluster.yaml for the right to look."
ASK = "Ask whoever administers the queue for more."


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a cluster queue has of a resource in one flavor: its own, what it may borrow, and what is used of both.

    borrowing: None where it may borrow as much as its cohort has to lend.
    used, nominal: None where it is not known.
    """

    flavor: str
    nominal: float | None
    borrowing: float | None
    used: float | None


async def queue_rulings(question: QuotaQuestion) -> tuple[Ruling, ...]:
    """What the queue says; one that cannot be asked cannot tell."""
    from prefect_tpu.infra.gcp.patience import Patience  # it loads what only a cluster needs

    impatient = Patience(connect=5.0, request=SECONDS / 2, retry=2.0)
    try:
        async with asyncio.timeout(SECONDS), Kubernetes(question.cluster, impatient) as cluster:
            return await _ask(cluster, question)
    except PrefectTpuError as exc:
        return (cannot_tell(f"queue {question.queue}: {exc}"),)
    except TimeoutError:
        return (cannot_tell(f"queue {question.queue}: its cluster did not answer within {SECONDS:.0f} s"),)


async def _ask(cluster: Kubernetes, question: QuotaQuestion) -> tuple[Ruling, ...]:
    local = await _find(cluster, LOCAL_QUEUES, str(question.queue), question.namespace)
    if isinstance(local, str):
        return (cannot_tell(f"queue {question.queue}: {local}", LOOK),)
    name = str(local["spec"]["clusterQueue"])
    found = await _find(cluster, CLUSTER_QUEUES, name)
    if isinstance(found, str):
        return (cannot_tell(f"queue {question.queue}: {found}", LOOK),)
    shares = shares_of(found, TPU if question.shape.platform == "tpu" else GPU)
    flavors = await asyncio.gather(*(_find(cluster, RESOURCE_FLAVORS, share.flavor) for share in shares))
    labels = {share.flavor: labels_of(flavor) for share, flavor in zip(shares, flavors, strict=True)}
    wanted = {**chip_labels(question.shape), **question.selector}
    return rule(f"queue {question.queue} ({name})", question.chips, fitting(shares, labels, wanted), cohort_of(found))


async def _find(cluster: Kubernetes, resource: Resource, name: str, namespace: str | None = None) -> Object | str:
    """An object, or why there is none to look at."""
    try:
        found = await cluster.find(resource, name, namespace)
    except Forbidden:
        return f"{resource.kind} {name} may not be looked at"
    except NotFound:
        return "the cluster does not know Kueue"
    return found if found is not None else f"{resource.kind} {name} is not there"


def rule(name: str, needed: int, shares: Sequence[Share], cohort: str) -> tuple[Ruling, ...]:
    """All of a job goes into one flavor; the one that has most to give is told of.

    name: of the queue, for people. cohort: whose queues lend each other what they do not use; "" for none.
    """
    if not shares:
        said = f"{name} has no flavor with chips of such nodes"
        return (Ruling(fit=Fit.DOES_NOT, said=said, advice="Name another queue.", is_for_good=True),)
    return best([(_of_share(name, needed, share, cohort),) for share in shares])


def _of_share(name: str, needed: int, share: Share, cohort: str) -> Ruling:
    most = share.nominal
    if most is not None and cohort:
        most += inf if share.borrowing is None else share.borrowing
    what = f"{name}, flavor {share.flavor}"
    allowance = Allowance(what=what, unit="chips", limit=most, used=share.used, more=ASK, unknown="its status is empty")
    whole = judge(needed, allowance)
    if whole.fit is Fit.DOES_NOT or share.nominal is None or share.used is None or not cohort:
        return whole
    own = judge(needed, Allowance(what=what, unit="chips", limit=share.nominal, used=share.used))
    if own.fit is Fit.FITS:
        return own
    return cannot_tell(f"{own.said}; the rest would be borrowed in cohort {cohort}, where others may use it")


def fitting(shares: Sequence[Share], labels: Mapping[str, Object | None], wanted: Object) -> tuple[Share, ...]:
    """Those of flavors whose nodes may be such ones; a flavor that cannot be looked at may be.

    Kueue compares the labels that a flavor names, where a pod asks for one of that name.
    """
    return tuple(
        share
        for share in shares
        if all(wanted.get(name, value) == value for name, value in (labels.get(share.flavor) or {}).items())
    )


def shares_of(cluster_queue: Object, resource: str) -> tuple[Share, ...]:
    """Per flavor, in the order in which Kueue tries them."""
    usage = {
        (flavor["name"], one["name"]): quantity(one.get("total"))
        for flavor in (cluster_queue.get("status") or {}).get("flavorsUsage") or ()
        for one in flavor.get("resources") or ()
    }
    return tuple(
        Share(
            flavor=flavor["name"],
            nominal=quantity(one.get("nominalQuota")),
            borrowing=quantity(one.get("borrowingLimit")),
            used=usage.get((flavor["name"], resource)),
        )
        for group in cluster_queue["spec"].get("resourceGroups") or ()
        for flavor in group["flavors"]
        for one in flavor["resources"]
        if one["name"] == resource
    )


def cohort_of(cluster_queue: Object) -> str:
    """Its name in the version that is served: v1beta2 calls it `cohortName`."""
    spec = cluster_queue["spec"]
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def labels_of(flavor: Object | str) -> Object | None:
    return None if isinstance(flavor, str) else flavor.get("spec", {}).get("nodeLabels") or {}


def quantity(value: Any) -> float | None:
    """A number of chips, as Kubernetes writes it; None where it is not there, or none that is known."""
    text = str(value)
    scale = 1_000 if text.endswith("k") else 1
    number = text.removesuffix("k")
    return float(number) * scale if number.isdecimal() else None
