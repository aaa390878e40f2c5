"""What is sent of an attempt to a cluster, and by what is it found there again? Pure: nothing is asked or sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import Slice, resolve
from prefect_tpu.infra.backends import jobset_pools, pathways_plan
from prefect_tpu.infra.backends.base import Attempt, Handle, Held, Plan
from prefect_tpu.infra.backends.jobset_roles import Helpers, helpers_of
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp import lifetimes, manifests, names, ownership, pathways_manifests
from prefect_tpu.infra.gcp.pod_plan import PodPlan, capacity_of
from prefect_tpu.infra.host_archive import host_archive
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.state import Offer

_PLATFORMS = {"tpu": "tpu", "gpu": "cuda", "cpu": "cpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where in which cluster the objects of an attempt are, and where it writes: a handle, read.

    name: of the JobSet. selector: of everything of this attempt, and of no other.
    slices, hosts: of its hosts; helpers: the pods beside them that work for them, where there are any.
    pools: node pools that were made for it.
    """

    cluster: str | None
    namespace: str
    name: str
    selector: str
    output: str
    attempt: int
    slices: int
    hosts: int
    helpers: Helpers | None = None
    pools: tuple[str, ...] = ()

    @property
    def hosts_per_slice(self) -> int:
        return self.hosts // self.slices

    @property
    def handle(self) -> Handle:
        """By which any process finds the attempt again."""
        return {"backend": "jobset", **asdict(self)}


def target(handle: Handle) -> Target:
    helpers = handle.get("helpers")
    values = {key: value for key, value in handle.items() if key not in ("backend", "helpers", "pools")}
    pools = tuple(handle.get("pools", ()))
    return Target(**values, helpers=Helpers(**helpers) if helpers else None, pools=pools)


def target_of(plan: HostPlan) -> Target:
    """Where the objects of a plan are, whoever sent them."""
    return Target(
        cluster=plan.cluster,
        namespace=plan.namespace or "default",
        name=layout.attempt_name(plan.job, plan.attempt),
        selector=ownership.attempt_selector(plan),
        output=plan.output,
        attempt=plan.attempt,
        slices=min(plan.slices, plan.hosts),
        hosts=plan.hosts,
        helpers=helpers_of(plan),
        pools=plan.pools,
    )


def hold(attempt: Attempt, offer: Offer, avoid: tuple[str, ...] = ()) -> Held:
    """What the plan does not say and its objects need: they are made of both, by whichever driver sends them."""
    kept = {
        "pods": asdict(pods(attempt.job)),
        "dialect": attempt.job.dialect,
        "provision_timeout": attempt.job.provision_timeout,
        "avoid": list(avoid),
    }
    made = jobset_pools.kept(attempt, offer)
    return Held(offer=offer, handle={**kept, "made": made and made.to_json()}, serves_once=made is not None)


def plan(attempt: Attempt, held: Held) -> Plan:
    """The plan of the hosts, and the objects that are created."""
    hosts = host_plan(attempt, held.offer)
    return Plan(hosts=hosts, objects=objects(hosts, held))


def objects(hosts: HostPlan, held: Held) -> tuple[dict[str, Any], ...]:
    """The same for the same plan and slice, whoever asks."""
    kept = held.handle
    sent = PodPlan(
        hosts=hosts,
        plan_url=f"{hosts.output}/{layout.plan(hosts.attempt)}",
        pods=PodSettings.from_json(kept["pods"]),
        shape=resolve(hosts.accelerator, dialect=kept["dialect"]),
        provision_timeout=kept["provision_timeout"],
        avoid=tuple(kept["avoid"]),
    )
    archive = host_archive().raw
    return pathways_manifests.objects(sent, archive) if hosts.workers else manifests.objects(sent, archive)


def host_plan(attempt: Attempt, offer: Offer) -> HostPlan:
    """What every host reads."""
    job, settings = attempt.job, pods(attempt.job)
    shape = resolve(offer.accelerator, dialect=job.dialect)
    capacity = capacity_of(shape, settings.reservation)
    hosts = HostPlan(
        job=job.name,
        attempt=attempt.number,
        accelerator=offer.accelerator,
        output=attempt.output,
        slices=job.slices,
        hosts=shape.hosts * job.slices,
        backend=job.backend,
        cluster=offer.cluster,
        namespace=settings.namespace,
        zone=offer.zone,
        pools=jobset_pools.names(attempt, offer),
        scratch=names.SCRATCH_FOLDER,
        devices_per_host=shape.devices_per_host,
        platform=_platform(job, shape),
        coordinator=names.coordinator(job.name, attempt.number),
        addresses=names.host_addresses(job.name, attempt.number, job.slices, shape.hosts),
        program=job.program,
        data=job.data,
        start_from=job.start_from,
        mesh=job.mesh,
        env={"JAX_COMPILATION_CACHE_DIR": f"{attempt.output}/{layout.COMPILATION_CACHE}", **job.env},
        restore=attempt.restore,
        checkpoint_every=job.checkpoint_every,
        grace=lifetimes.program_grace(job.grace, capacity),
        orphan_after=None,  # the cluster ends it at its deadline; until then any driver may come back to it
        join_timeout=job.join_timeout,
        deadline=job.deadline,
        stall_timeout=job.stall_timeout,
        drills=job.drills,
        profile=job.profile,
        python=settings.python,
        regions=names.regions(job.name, attempt.number) if job.program.kind == "flow" else None,
    )
    return pathways_plan.one_host(hosts, shape, job) if job.backend == pathways_plan.NAME else hosts


def _platform(job: SliceJob, shape: Slice) -> str:
    """What JAX runs on: a job may be rehearsed without its chips, on the CPUs of the same hosts."""
    return "cpu" if job.env.get("JAX_PLATFORMS") == "cpu" else _PLATFORMS[shape.platform]


def pods(job: SliceJob) -> PodSettings:
    """What the job says of its pods. Raises `UsageError` where it says nothing."""
    if job.pods is None:
        raise UsageError(f"Job {job.name!r} says nothing of its pods: name an image (image=…, --image).")
    return job.pods
