"""Which attempts below an output are still in a cluster, whoever made them? For the reaper to judge."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from prefect_tpu.infra.backends.base import Place, Remnant
from prefect_tpu.infra.backends.jobset_plan import Target
from prefect_tpu.infra.backends.jobset_reading import read_jobset, read_time
from prefect_tpu.infra.backends.jobset_roles import helpers_in
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.ownership import ATTEMPT, IDENTITY, MANAGED_BY, OURS, OUTPUT
from prefect_tpu.infra.gcp.resources import JOBSETS, Selection, with_labels
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.policy.offers import offers_of

logger = logging.getLogger(__name__)
Object = dict[str, Any]


@contextmanager
def passing_over(cluster: str | None, namespace: str | None = None, *, is_extra: bool) -> Iterator[None]:
    """Whoever names places wants these looked at; another one that jobs name may be out of reach from here."""
    try:
        yield
    except (UsageError, PlatformError) as exc:
        if not is_extra:
            raise
        where = f"namespace {namespace!r} of cluster" if namespace else "the node pools of cluster"
        logger.warning("Jobs are in %s %r too, which cannot be looked at from here: %s", where, cluster or "", exc)


async def find_all(
    output: str, jobs: Sequence[SliceJob], places: Sequence[Place]
) -> tuple[tuple[Remnant, ...], frozenset[Place]]:
    """Those of all places where the jobs may have any, and of those that are named; and where it was looked."""
    own = {(offer.cluster, job.pods.namespace) for job in jobs if job.pods for offer in offers_of(job)}
    found, seen = list[Remnant](), set[Place]()
    for cluster, namespace in sorted(own | set(places), key=str):
        is_extra = bool(places) and (cluster, namespace) not in places
        with passing_over(cluster, namespace, is_extra=is_extra):
            async with Kubernetes(cluster) as opened:
                found += await find(opened, cluster, namespace, output)
            seen.add((cluster, namespace))
    return tuple(found), frozenset(seen)


async def outputs_in(name: str | None, namespace: str) -> frozenset[str]:
    """Every output that a JobSet of ours in a namespace has its job below."""
    ours = Selection(resource=JOBSETS, namespace=namespace, labels=with_labels({MANAGED_BY: OURS}))
    async with Kubernetes(name) as cluster:
        folders = [_output(jobset) for jobset in await cluster.list_all(ours)]
    return frozenset(folder.rstrip("/").rpartition("/")[0] for folder in folders) - {""}


async def find(cluster: Kubernetes, name: str | None, namespace: str, output: str) -> list[Remnant]:
    """Every JobSet of ours in a namespace whose job lies below an output. `name`: how the cluster was called."""
    ours = Selection(resource=JOBSETS, namespace=namespace, labels=with_labels({MANAGED_BY: OURS}))
    below = f"{output.rstrip('/')}/"
    found = await cluster.list_all(ours)
    return [_remnant(jobset, name) for jobset in found if _output(jobset).startswith(below)]


def _output(jobset: Object) -> str:
    return str((jobset["metadata"].get("annotations") or {}).get(OUTPUT, ""))


def _remnant(jobset: Object, cluster: str | None) -> Remnant:
    metadata, target = jobset["metadata"], _target(jobset, cluster)
    return Remnant(
        output=target.output,
        attempt=target.attempt,
        what=f"JobSet {metadata['name']!r} in namespace {metadata['namespace']!r}",
        age=time.time() - (read_time(metadata["creationTimestamp"]) or 0.0),
        handle=target.handle,
        is_over=read_jobset(jobset).has_ended,
    )


def _target(jobset: Object, cluster: str | None) -> Target:
    """As the plan would say it: everything that finds an attempt again stands in its labels."""
    metadata, replicated = jobset["metadata"], jobset["spec"]["replicatedJobs"][0]  # the first are hosts
    slices = int(replicated.get("replicas", 1))
    return Target(
        cluster=cluster,
        namespace=metadata["namespace"],
        name=metadata["name"],
        selector=with_labels({label: metadata["labels"][label] for label in IDENTITY}),
        output=_output(jobset),
        attempt=int(metadata["labels"][ATTEMPT]),
        slices=slices,
        hosts=slices * int(replicated["template"]["spec"]["completions"]),
        helpers=helpers_in(jobset),
    )
