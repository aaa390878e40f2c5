"""Slices of a Kubernetes cluster: one JobSet per attempt, which Kubernetes never restarts.

A JobSet is its own request for capacity: it is sent at once and waits in the cluster for its slice, which
`Observation.waiting` explains. Each file beside this one answers one question; nothing that matters is kept between two
calls, so any process goes on where another one was killed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import PurePosixPath

from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends import (
    jobset_checks,
    jobset_ending,
    jobset_logs,
    jobset_plan,
    jobset_pool_remnants,
    jobset_pools,
    jobset_quota,
    jobset_remnants,
    jobset_sending,
)
from prefect_tpu.infra.backends.base import Attempt, Handle, Held, LogLine, Place, Plan, Refused, Remnant
from prefect_tpu.infra.backends.jobset_avoiding import places_to_avoid
from prefect_tpu.infra.backends.jobset_quota_question import question_of
from prefect_tpu.infra.backends.jobset_watch import Watching
from prefect_tpu.infra.checks import Look
from prefect_tpu.infra.contract import Env
from prefect_tpu.infra.errors import PlatformError, UsageError
from prefect_tpu.infra.gcp.contradictions import contradiction, contradiction_of_places, zones_to_name
from prefect_tpu.infra.gcp.kubernetes import Kubernetes
from prefect_tpu.infra.gcp.placement import zone_label
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.policy.quota import Ruling
from prefect_tpu.infra.state import Observation, Offer, Waiting
from prefect_tpu.infra.storage import BUCKET

logger = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # a look at a bucket is a request or two
FOLDER = "file://"  # how somebody says that this machine and the nodes have the same folder


class JobSetBackend:
    """A slice of N hosts is N pods of a JobSet, on nodes that GKE labels with the accelerator."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        # asked once: the next attempt waits for no twenty questions
        self._accepted: tuple[str | None, PodSettings] | None = None

    @property
    def look_seconds(self) -> float:
        return LOOK_SECONDS

    def default_output(self) -> str:
        output = (os.environ if self._environment is None else self._environment).get(Env.OUTPUT, "")
        if output.startswith((BUCKET, FOLDER)):
            return output
        raise UsageError(
            f"Hosts in a cluster cannot write to a folder of this machine: name a bucket with --output {BUCKET}… or"
            f" {Env.OUTPUT}."
        )

    def check(self, job: SliceJob, output: str) -> None:
        pods = jobset_plan.pods(job)
        if job.name.endswith("-"):
            raise UsageError(f"Job name {job.name!r} ends with '-', as no label of a cluster does: leave that out.")
        if not output.startswith((BUCKET, FOLDER)) and not _is_shared(output, pods.volumes):
            raise UsageError(
                f"Output {output!r} is a folder of this machine, where hosts in a cluster cannot write: name a bucket"
                f" ({BUCKET}…), a folder below one of the job's volumes, or {FOLDER}… where nodes and this machine have"
                " the same folder."
            )
        for name in job.accelerators:
            shape = resolve(name, dialect=job.dialect)
            if why := jobset_checks.unknown_to_gke(name, shape) or contradiction(name, shape, pods):
                raise UsageError(why)
        if why := contradiction_of_places(pods) or zones_to_name(pods):
            raise UsageError(why)

    def checks(self, output: str) -> Mapping[str, Look]:
        return {}

    async def remnants(
        self, output: str, jobs: Sequence[SliceJob], places: Sequence[Place] = ()
    ) -> tuple[Remnant, ...]:
        jobsets, seen = await jobset_remnants.find_all(output, jobs, places)
        return (*jobsets, *await jobset_pool_remnants.find_all(output, jobs, places, jobsets, seen))

    async def limits(self, job: SliceJob, offer: Offer, output: str) -> tuple[Ruling, ...]:
        return await jobset_quota.rulings(question_of(job, offer))

    async def provision(self, attempt: Attempt, offer: Offer) -> Held | Waiting | Refused:
        imagined = self.imagine(attempt, offer)
        if isinstance(imagined, Refused):
            return imagined
        pods = jobset_plan.pods(attempt.job)
        asked = offer.cluster, pods
        async with Kubernetes(offer.cluster) as cluster:
            if asked == self._accepted:
                why = await jobset_checks.missing_namespace(cluster, pods.namespace)
            else:
                why = await jobset_checks.refusal(cluster, pods)
            if why:
                return Refused(reason=why, is_barred=True)
            self._accepted = asked
            shape = resolve(offer.accelerator, dialect=attempt.job.dialect)
            selector = {**zone_label(offer.zone), **pods.node_selector}
            lost = () if pods.make_pools else attempt.avoid  # what is made anew is none of those
            avoid = await places_to_avoid(
                cluster, (offer.cluster, pods.namespace), shape, attempt.job.slices, lost, selector
            )
            held = jobset_plan.hold(attempt, offer, avoid)
            _, jobset = jobset_plan.plan(attempt, held).objects
            if (objection := await jobset_sending.objection(cluster, jobset)) is not None:
                return objection  # before anything is made that costs money
        return await jobset_pools.ensure(attempt, offer) or held

    def imagine(self, attempt: Attempt, offer: Offer) -> Held | Refused:
        why = jobset_checks.unknown_to_gke(offer.accelerator, resolve(offer.accelerator, dialect=attempt.job.dialect))
        if why := why or jobset_pools.objection(attempt, offer):
            return Refused(reason=why)
        return jobset_plan.hold(attempt, offer)

    def plan(self, attempt: Attempt, held: Held) -> Plan:
        return replace(jobset_plan.plan(attempt, held), pools=jobset_pools.requests(attempt, held.offer))

    async def submit(self, plan: HostPlan, held: Held | None) -> Handle:
        """Whoever holds nothing only adopts: what the JobSet is made of is known with the slice."""
        if held is not None:
            async with Kubernetes(plan.cluster) as cluster:
                await jobset_sending.send(cluster, jobset_plan.objects(plan, held))
        return self.attach(plan)

    def attach(self, plan: HostPlan) -> Handle:
        return jobset_plan.target_of(plan).handle

    async def observe(self, handle: Handle) -> AsyncGenerator[Observation, None]:
        target = jobset_plan.target(handle)
        async with (
            Kubernetes(target.cluster) as cluster,
            self.watching(cluster, target) as watching,
            aclosing(watching.snapshots()) as snapshots,
        ):
            async for seen in snapshots:
                yield seen

    def watching(self, cluster: Kubernetes, target: jobset_plan.Target) -> Watching:
        """How `observe` watches an attempt."""
        return Watching(cluster, target, LOOK_SECONDS)

    async def logs(
        self, handle: Handle, hosts: tuple[int, ...] | None = None, follow: bool = False, tail: int | None = None
    ) -> AsyncGenerator[LogLine, None]:
        target = jobset_plan.target(handle)
        wanted = jobset_logs.Wanted(follow=follow, tail=tail)
        async with Kubernetes(target.cluster) as cluster:
            read = jobset_logs.read(cluster, target, range(target.hosts) if hosts is None else hosts, wanted)
            async with aclosing(read) as lines:
                async for line in lines:
                    yield line

    async def stop(self, handle: Handle) -> None:
        target = jobset_plan.target(handle)
        async with Kubernetes(target.cluster) as cluster:
            await jobset_sending.tell_to_stop(cluster, target)

    async def forget(self, handle: Handle) -> None:
        if (lone := jobset_pool_remnants.lone_pool(handle)) is not None:
            await jobset_pools.give_back(lone.cluster, (lone.pool,), lone.owner)
            return
        target = jobset_plan.target(handle)
        async with Kubernetes(target.cluster) as cluster:
            await jobset_ending.forget(cluster, target)
        await jobset_pools.leave(target.cluster, target.pools, target.output)

    async def release(self, held: Held) -> None:
        """A slice is taken and given back with its JobSet; pools that were made for one go with it, else at once."""
        kept = jobset_pools.Kept.of(held)
        if kept is not None and not await _may_live(kept):
            await jobset_pools.leave(kept.cluster, kept.pools, kept.output)

    async def tidy(self, job: SliceJob, plan: HostPlan) -> bool:
        return await jobset_pools.give_others_back(job, plan)

    async def withdraw(self, job: SliceJob, output: str) -> None:
        await jobset_pools.give_all_back(job, output)


async def _may_live(kept: jobset_pools.Kept) -> bool:
    """Whether an attempt lives on these pools: it may where its cluster does not tell, and they go later then."""
    try:
        async with Kubernetes(kept.cluster) as cluster:
            return await jobset_sending.is_live(cluster, kept.jobset, kept.namespace, kept.output)
    except (PlatformError, UsageError) as exc:
        pools = ", ".join(kept.pools)
        logger.warning("Node pools %s are kept for now, for attempt %s may live on them: %s", pools, kept.jobset, exc)
        return True


def _is_shared(output: str, volumes: Mapping[str, str]) -> bool:
    """Whether a folder lies where the pods see a volume that others see too."""
    folder = PurePosixPath(output)
    shared = (path for path, source in volumes.items() if source.startswith(("claim:", BUCKET)))
    return any(folder.is_relative_to(path) for path in shared)
