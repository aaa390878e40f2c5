"""What is sent of an attempt to a cluster, and by what is it found there again? Pure: nothing is asked or sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.backends.base import Attempt, Handle, Held, Plan
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp import lifetimes, manifests, names, ownership
from prefect_tpu.infra.gcp.pod_plan import PodPlan
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
    """

    cluster: str | None
    namespace: str
    name: str
    selector: str
    output: str
    attempt: int
    slices: int
    hosts: int

    @property
    def hosts_per_slice(self) -> int:
        return self.hosts // self.slices

    @property
    def handle(self) -> Handle:
        """By which any process finds the attempt again."""
        return {"backend": "jobset", **asdict(self)}


def target(handle: Handle) -> Target:
    return Target(**{key: value for key, value in handle.items() if key != "backend"})


def target_of(plan: HostPlan) -> Target:
    """Where the objects of a plan are, whoever sent them."""
    return Target(
        cluster=plan.cluster,
        namespace=plan.namespace or "default",
        name=layout.attempt_name(plan.job, plan.attempt),
        selector=ownership.attempt_selector(plan),
        output=plan.output,
        attempt=plan.attempt,
        slices=plan.slices,
        hosts=plan.hosts,
    )


def hold(attempt: Attempt, offer: Offer, avoid: tuple[str, ...] = ()) -> Held:
    """What the plan does not say and its objects need: they are made of both, by whichever driver sends them."""
    kept = {
        "pods": asdict(pods(attempt.job)),
        "dialect": attempt.job.dialect,
        "provision_timeout": attempt.job.provision_timeout,
        "avoid": list(avoid),
    }
    return Held(offer=offer, handle=kept)


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
    return manifests.objects(sent, host_archive().raw)


def host_plan(attempt: Attempt, offer: Offer) -> HostPlan:
    """What every host reads."""
    job, settings = attempt.job, pods(attempt.job)
    shape = resolve(offer.accelerator, dialect=job.dialect)
    capacity = (shape.capacity or "").partition("=")[0]
    return HostPlan(
        job=job.name,
        attempt=attempt.number,
        accelerator=offer.accelerator,
        output=attempt.output,
        slices=job.slices,
        hosts=shape.hosts * job.slices,
        backend="jobset",
        cluster=settings.cluster,
        namespace=settings.namespace,
        scratch=names.SCRATCH_FOLDER,
        devices_per_host=shape.devices_per_host,
        platform=_PLATFORMS[shape.platform],
        coordinator=names.coordinator(job.name, attempt.number),
        addresses=names.host_addresses(job.name, attempt.number, job.slices, shape.hosts),
        program=job.program,
        data=job.data,
        env={"JAX_COMPILATION_CACHE_DIR": f"{attempt.output}/{layout.COMPILATION_CACHE}", **job.env},
        restore=attempt.restore,
        checkpoint_every=job.checkpoint_every,
        grace=lifetimes.program_grace(job.grace, capacity),
        orphan_after=None,  # the cluster ends it at its deadline; until then any driver may come back to it
        join_timeout=job.join_timeout,
        deadline=job.deadline,
        stall_timeout=job.stall_timeout,
        drills=job.drills,
        python=settings.python,
    )


def pods(job: SliceJob) -> PodSettings:
    """What the job says of its pods. Raises `UsageError` where it says nothing."""
    if job.pods is None:
        raise UsageError(f"Job {job.name!r} says nothing of its pods: name an image (image=…, --image).")
    return job.pods
