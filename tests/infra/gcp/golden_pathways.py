"""The plans behind the golden manifests of Pathways.

`python tests/infra/gcp/golden_pathways.py` writes the manifests anew; look at the difference before it is committed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect_tpu.infra.backends.pathways_plan import one_host
from prefect_tpu.infra.gcp import pathways_manifests
from prefect_tpu.infra.gcp.pod_plan import PodPlan
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.pathways import PathwaysSettings
from tests.infra.gcp import golden_plans
from tests.infra.gcp.golden_plans import ARCHIVE, Golden

FOLDER = Path(__file__).parent / "golden_pathways"
JAX = {"jax": "0.10.2"}


def golden(accelerator: str, slices: int = 1, pods: dict[str, Any] | None = None, **pathways: Any) -> Golden:
    return Golden(
        accelerator=accelerator,
        slices=slices,
        job="abcdefghij-lmnopqr",
        attempt=999,
        pods={**(pods or {}), "pathways": PathwaysSettings(**{**JAX, **pathways})},
    )


GOLDEN = {
    "v6e": golden("v6e-16"),
    "v5p-two-slices": golden("v5p-2x2x4:spot", slices=2, head_pool="cpu-np"),
    "one-host-slices": golden("v5e-8", slices=2),
    "elastic": golden("v5e-16", slices=3, elastic_slices=2, slice_restarts=3),
    "colocated": golden("v6e-16", colocated_python="europe-docker.pkg.dev/project/images/beside:1"),
    "kueue": golden("v6e-16", pods={"queue": "tpus", "priority_class": "high"}),
    "everything": golden(
        "v4-32",
        pods=golden_plans.GOLDEN["everything"].pods,
        jax=None,
        version="20261002-jax_0.11.0",
        server_image="mirror/server:1",
        scratch="gs://scratch/pathways",
        head_pool="heads",
        host_network=True,
        manager_cpu="2",
        manager_memory="4G",
        proxy_cpu="4",
        proxy_memory="8G",
        manager_flags=("--a=1",),
        proxy_flags=("--virtual_slices=tpuv4:2x4x4",),
        worker_flags=("--tpu_premapped_buffer_size=4294967296", "--b"),
    ),
}


def pod_plan(golden: Golden) -> PodPlan:
    plan = golden_plans.pod_plan(golden)
    job = SliceJob(
        name=golden.job,
        program=plan.hosts.program,
        accelerators=(golden.accelerator,),
        backend="pathways",
        slices=golden.slices,
        pods=plan.pods,
        env={"LEVEL": "info"},
    )
    return replace(plan, hosts=one_host(replace(plan.hosts, backend="pathways"), plan.shape, job))


def objects(golden: Golden) -> tuple[dict[str, Any], ...]:
    return pathways_manifests.objects(pod_plan(golden), ARCHIVE)


def written(golden: Golden) -> str:
    return golden_plans.as_yaml(objects(golden)[-1])


if __name__ == "__main__":
    golden_plans.write_all(FOLDER, {name: written(one) for name, one in GOLDEN.items()})
