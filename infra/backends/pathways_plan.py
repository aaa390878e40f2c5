"""What does the one host of an attempt with Pathways read? The plan of many hosts, as that of one with all chips."""

from __future__ import annotations

from dataclasses import replace

from prefect_tpu.infra.accelerators import Slice
from prefect_tpu.infra.gcp import names
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pathways import PathwaysSettings
from prefect_tpu.infra.plan import HostPlan

NAME = "pathways"  # of the backend


def one_host(hosts: HostPlan, shape: Slice, job: SliceJob) -> HostPlan:
    """Pathways compiles where the chips are: JAX's own cache of compiled programs, shared by attempts, is not used."""
    settings = (job.pods and job.pods.pathways) or PathwaysSettings()
    head = names.head_address(hosts.job, hosts.attempt)
    return replace(
        hosts,
        hosts=1,
        workers=shape.hosts * hosts.slices,
        elastic_slices=settings.elastic_slices,
        devices_per_host=shape.jax_devices * hosts.slices,
        platform="proxy",
        coordinator=f"{head}:{names.COORDINATOR_PORT}",
        addresses=(head,),
        regions=f"{head}:{names.REGIONS_PORT}" if hosts.regions else None,
        env=dict(job.env),
    )
