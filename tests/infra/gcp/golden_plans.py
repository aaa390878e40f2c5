"""The plans behind the golden manifests: each kind of attempt that differs from the others.

`python tests/infra/gcp/golden_plans.py` writes the manifests anew; look at the difference before it is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from prefect_tpu.infra import layout
from prefect_tpu.infra.accelerators import resolve
from prefect_tpu.infra.gcp import lifetimes, manifests, names
from prefect_tpu.infra.gcp.pod_plan import PodPlan
from prefect_tpu.infra.gcp.pool_names import Try, pool_names
from prefect_tpu.infra.job import Program
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.pods import PodSettings

FOLDER = Path(__file__).parent / "golden"
ARCHIVE = b"what hosts run"
IMAGE = "europe-docker.pkg.dev/project/images/train:1"
IN_OWN_POOLS = {"cluster": "gke://project/us-east5/trainer", "zones": ("us-east5-b",), "make_pools": True}
JAX_PLATFORMS = {"tpu": "tpu", "gpu": "cuda", "cpu": "cpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """One manifest: of which accelerator, how many slices, with which settings of pods and of the job."""

    accelerator: str
    slices: int = 1
    job: str = "digits"
    attempt: int = 1
    pods: dict[str, Any] = field(default_factory=dict)
    grace: float = 30.0
    deadline: float | None = None
    avoid: tuple[str, ...] = ()


GOLDEN = {
    "v3-one-host": Golden(accelerator="v3-8"),
    "v3": Golden(accelerator="v3-32"),
    "v4-one-host": Golden(accelerator="v4-8"),
    "v4": Golden(accelerator="v4-32"),
    "v5e-one-chip": Golden(accelerator="v5e-1"),
    "v5e-one-host-of-eight": Golden(accelerator="v5e-8"),
    "v5e-two-hosts-of-four": Golden(accelerator="v5e-8@ct5lp-hightpu-4t"),
    "v5e": Golden(accelerator="v5litepod-16"),
    "v5p-one-host": Golden(accelerator="v5p-8"),
    "v5p": Golden(accelerator="v5p-2x2x4"),
    "v6e-one-host-of-eight": Golden(accelerator="v6e-8"),
    "v6e-two-hosts-of-four": Golden(accelerator="v6e-8@ct6e-standard-4t"),
    "v6e": Golden(accelerator="v6e-16"),
    "v6e-largest": Golden(accelerator="v6e-256", deadline=7200.0),
    "tpu7x-one-chip": Golden(accelerator="tpu7x-2"),
    "tpu7x": Golden(accelerator="tpu7x-64"),
    "tpu7": Golden(accelerator="tpu7-2x2x2"),
    "two-slices": Golden(accelerator="v5e-16", slices=2),
    "two-slices-of-one-host": Golden(accelerator="v6e-4", slices=2),
    "spot": Golden(accelerator="v6e-16:spot"),
    "reserved": Golden(accelerator="v5p-16:reserved=block-a"),
    "reserved-by-another-project": Golden(
        accelerator="v6e-16", pods={"reservation": "projects/other/reservations/block-b"}
    ),
    "flex-start": Golden(accelerator="v6e-16:flex-start"),
    "queued-provisioning": Golden(accelerator="v5e-16:queue", pods={"provisioning_request": "digits-request"}),
    "kueue": Golden(accelerator="v6e-16", pods={"queue": "tpus", "priority_class": "high"}),
    "in-a-zone": Golden(accelerator="v6e-16:spot", pods={"zones": ("us-east5-b",)}),
    "in-a-pool-of-its-own": Golden(accelerator="v6e-16:spot", pods=IN_OWN_POOLS),
    "in-pools-of-its-own": Golden(accelerator="v6e-16", slices=2, pods=IN_OWN_POOLS),
    "in-a-pool-of-its-own-hosts": Golden(accelerator="v6e-8", slices=2, pods=IN_OWN_POOLS),
    "after-a-lost-pool": Golden(accelerator="v6e-16", attempt=3, avoid=("pool-a", "pool-c")),
    "one-gpu": Golden(accelerator="l4"),
    "eight-gpus": Golden(accelerator="h100x8:spot", grace=8.0),
    "cpu": Golden(accelerator="cpu"),
    "cpu-hosts": Golden(accelerator="cpu-4x1", pods={"cpu": "500m", "memory": "1Gi"}),
    "everything": Golden(
        accelerator="v6e-16",
        job="abcdefghij-lmnopqr",
        attempt=999,
        grace=60.5,
        deadline=86_400.0,
        pods={
            "cluster": "gke://project/europe-west4/trainer",
            "namespace": "research",
            "python": "/opt/venv/bin/python",
            "service_account": "trainer",
            "pull_secrets": ("registry", "mirror"),
            "cpu": "90",
            "memory": "100Gi",
            "ephemeral_storage": "50Gi",
            "shared_memory": "32Gi",
            "priority_class": "high",
            "secrets": {"WANDB_API_KEY": "wandb/api-key", "HF_TOKEN": "hub/token"},
            "volumes": {
                "/data": "gs://bucket/folder/below",
                "/models": "gs://models",
                "/config": "configmap:settings",
                "/tls": "secret:tls",
                "/cache": "claim:cache",
                "/spare": "empty",
                "/fast": "empty:10Gi",
            },
            "node_selector": {"cloud.google.com/gke-nodepool": "pool-b"},
            "labels": {"team": "vision"},
            "annotations": {"example.com/note": "anything: at all"},
            "ttl": 3600,
        },
    ),
}


def _own_pools(golden: Golden, pods: PodSettings) -> tuple[str, ...]:
    if not pods.make_pools:
        return ()
    tried = Try(
        job=golden.job,
        attempt=golden.attempt,
        output=f"gs://bucket/jobs/{golden.job}",
        accelerator=golden.accelerator,
        zone=pods.zones[0],
    )
    return pool_names(tried, resolve(golden.accelerator), golden.slices)


def pod_plan(golden: Golden) -> PodPlan:
    shape = resolve(golden.accelerator)
    output = f"gs://bucket/jobs/{golden.job}"
    pods = PodSettings(**{"image": IMAGE, **golden.pods})
    hosts = HostPlan(
        job=golden.job,
        attempt=golden.attempt,
        accelerator=golden.accelerator,
        output=output,
        slices=golden.slices,
        hosts=golden.slices * shape.hosts,
        backend="jobset",
        cluster=pods.cluster,
        namespace=pods.namespace,
        zone=next(iter(pods.zones), None),
        pools=_own_pools(golden, pods),
        scratch=names.SCRATCH_FOLDER,
        devices_per_host=shape.devices_per_host,
        platform=JAX_PLATFORMS[shape.platform],
        coordinator=names.coordinator(golden.job, golden.attempt),
        addresses=names.host_addresses(golden.job, golden.attempt, golden.slices, shape.hosts),
        program=Program(kind="module", target="train:main", params={"steps": 100}),
        env={"LEVEL": "info"},
        checkpoint_every=600.0,
        grace=lifetimes.program_grace(golden.grace, (shape.capacity or "").partition("=")[0]),
        orphan_after=None,
        join_timeout=120.0,
        deadline=golden.deadline,
        python=pods.python,
    )
    return PodPlan(
        hosts=hosts,
        plan_url=f"{output}/{layout.plan(golden.attempt)}",
        pods=pods,
        shape=shape,
        provision_timeout=86_400.0,
        avoid=golden.avoid,
    )


def objects(golden: Golden) -> tuple[dict[str, Any], ...]:
    return manifests.objects(pod_plan(golden), ARCHIVE)


def written(golden: Golden) -> str:
    """As a golden file has it: the JobSet alone, for the other object is the same in all of them."""
    return as_yaml(objects(golden)[-1])


def as_yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=120)


def write_all(folder: Path, texts: Mapping[str, str]) -> None:
    """These files and no others."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.yaml"):
        path.unlink()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)


if __name__ == "__main__":
    config_map = {"config-map": as_yaml(objects(GOLDEN["v6e"])[0])}
    write_all(FOLDER, {name: written(golden) for name, golden in GOLDEN.items()} | config_map)
