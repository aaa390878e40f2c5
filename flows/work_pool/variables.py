"""What can be set for runs of a `tpu-slice` pool? The form that Prefect shows, one field per setting.

Flat, because Prefect replaces a variable whole: what a deployment says of one inside another would drop the rest. Only
`env` is merged name by name, and only under that name, which is why it is not called `environment`. Empty text, an
empty list and 0 where it is allowed say nothing, so no field needs a null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from prefect.workers.base import BaseVariables
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job import SliceJob
from prefect_tpu.infra.meshes import parse_mesh
from prefect_tpu.infra.windows import parse_window


def _default(name: str) -> Any:
    """What a job has where nobody says anything."""
    return SliceJob.__dataclass_fields__[name].default


def _read_by(parse: Callable[[str], Any]) -> AfterValidator:
    """Text that the form can check as a job does: empty, or what this reads. Who made a reference fills it in later."""

    def checked(text: str) -> str:
        if text and "{{" not in text:
            try:
                parse(text)
            except UsageError as exc:
                raise PydanticCustomError("unreadable", "{why}", {"why": str(exc).rstrip(".")}) from exc
        return text

    return AfterValidator(checked)


class SliceFields(BaseModel):
    """Fields of the form, and of the configuration that comes of it."""

    accelerator: str = Field("cpu", description="The slice, such as `v6e-16`, `v5p-2x2x4`, `h100x8` or `cpu`.")
    fallback_accelerators: list[str] = Field([], description="Taken in this order where the first is not to be had.")
    capacity: Literal["", "on-demand", "spot", "flex-start", "queue", "reserved"] = Field(
        "", description="Of each accelerator that names none, as `v6e-16:spot` does. Empty: whatever there is."
    )
    slices: int = Field(1, ge=1, description="How many slices of the accelerator the flow spans.")
    mesh: Annotated[str, _read_by(parse_mesh)] = Field(
        "", description="What `mesh()` gives a region that says none, such as `data=-1,tp=4`. Empty: one axis `data`."
    )
    profile: Annotated[str, _read_by(parse_window)] = Field(
        "", description="Which steps of a region all hosts record for xprof, such as `skip=10,steps=5`. Empty: none."
    )
    backend: Literal["", "local", "jobset", "pathways"] = Field(
        "",
        description="Where slices come from: `local`, processes of the worker's machine; `jobset`, pods of a cluster;"
        " or `pathways`, such pods that the flow's own drives alone. Empty: `jobset` where an image, a cluster or"
        " anything else of pods is given, and `pathways` where anything of that is.",
    )
    image: str = Field(
        "", description="What the container of each host runs: it has Python, Prefect and the flow's packages."
    )
    output: str = Field(
        "",
        description="Folder of all runs: what is kept of each, such as logs and checkpoints. Empty: that of the saved"
        " cluster, else `$PREFECT_TPU_OUTPUT`. A cluster needs a `gs://` URL.",
    )
    cluster: str = Field(
        "",
        description="The name `block:NAME` of a saved one, a kubeconfig context, or"
        " `gke://project/location/cluster`. Empty: the one that the worker runs in, or that `kubectl` uses.",
    )
    fallback_clusters: list[str] = Field([], description="Where else, in this order, where the cluster has no slice.")
    zones: list[str] = Field([], description="Where slices may be, in this order. Empty: wherever the cluster has any.")
    make_pools: bool = Field(
        False, title="Make Node Pools", description="Make a node pool for each slice, and delete it after."
    )
    node_service_account: str = Field(
        "",
        description="Whose rights the nodes of such pools have, as an email address. Empty: the project's default.",
    )
    reservation: str = Field(
        "", description="Its name, or `projects/PROJECT/reservations/NAME`, for slices of reserved capacity."
    )
    provisioning_request: str = Field("", description="Of queued provisioning: the request that holds the nodes.")
    namespace: str = Field("", description="Where the objects are made. Empty: `default`.")
    queue: str = Field("", description="A Kueue LocalQueue that admits the run.")
    priority_class: str = Field("", description="By which the cluster's scheduler chooses who goes first.")
    service_account: str = Field("", description="Whose rights the flow has. Empty: the namespace's default.")
    secrets: dict[str, str] = Field(
        {}, description="Environment variable → `secret/key` of the cluster; never the secret itself."
    )
    pull_secrets: list[str] = Field([], description="Names of the secrets by which nodes fetch the image.")
    volumes: dict[str, str] = Field(
        {}, description="Path → `gs://bucket/folder`, `configmap:NAME`, `secret:NAME`, `claim:NAME` or `empty:SIZE`."
    )
    cpu: str = Field("", title="CPU", description="CPUs of each host, such as `8`. Empty: what its machine has left.")
    memory: str = Field("", description="Of each host, such as `64Gi`; then no more. Empty: as for CPUs, no limit.")
    ephemeral_storage: str = Field("", description="Disk of each host, such as `50Gi`; then no more.")
    shared_memory: str = Field("", description="Size of /dev/shm, such as `16Gi`.")
    node_selector: dict[str, str] = Field({}, description="Labels that nodes must have beside those of the chips.")
    annotations: dict[str, str] = Field({}, description="Put on the objects of the run.")
    python: str = Field("", description="The interpreter in the image. Empty: `python3`.")
    ttl: int = Field(
        86_400,
        ge=0,
        title="Time To Live",
        description="Seconds that the objects of an attempt stay after its end, for whoever looks at them.",
    )
    provision_timeout: float = Field(
        _default("provision_timeout"),
        gt=0,
        description="Seconds without a slice, until the run is given up.",
    )
    run_timeout: float = Field(0, ge=0, description="Seconds from the start of an attempt to its end. 0: no limit.")
    stall_timeout: float = Field(
        _default("stall_timeout"),
        ge=0,
        description="Seconds without a step on any host, until the attempt is ended; only those count that report"
        " steps. 0: no limit.",
    )
    join_timeout: float = Field(_default("join_timeout"), gt=0, description="Seconds until all hosts have met.")
    grace: float = Field(
        _default("grace"),
        gt=0,
        description="Seconds that a host has to save and leave once it is told to; on spot nodes of GKE 10 at most.",
    )
    orphan_after: float = Field(
        _default("orphan_after"),
        gt=0,
        description="Seconds until hosts on the worker's machine that no worker drives save and leave.",
    )
    checkpoint_every: float = Field(_default("checkpoint_every"), gt=0, description="Seconds between two checkpoints.")
    max_preemptions: int = Field(
        _default("max_preemptions"),
        ge=0,
        description="Restarts without progress before the run is given up.",
    )
    pathways_jax: str = Field(
        "", title="Pathways JAX", description="The JAX version in the image, by which Pathways' own are chosen."
    )
    pathways_version: str = Field("", description="The tag of Pathways' images, where another one is wanted.")
    pathways_scratch: str = Field(
        "",
        description="A bucket's folder for what Pathways keeps while it runs. Empty: one of the run's output.",
    )
    pathways_head_pool: str = Field("", description="The node pool of the flow's own pod, which needs no chips.")
    pathways_elastic_slices: int = Field(
        0,
        ge=0,
        description="How many slices may be lost and come back while the flow runs on.",
    )
    pathways: dict[str, Any] = Field(
        {}, description="Further settings of Pathways by name, such as `proxy_memory` or `worker_flags`."
    )


class TpuSliceVariables(BaseVariables, SliceFields):
    """The form of a pool, a deployment or a run."""

    name: str | None = Field(None, description="Kept as an annotation of the run's objects. Empty: the run's name.")
    env: dict[str, str | None] = Field(
        {},
        title="Environment Variables",
        description="Of the flow; merged with those of the pool and the deployment, and null takes one away. What"
        " refers to a Prefect block reaches the flow without being written down.",
    )
    labels: dict[str, str] = Field({}, description="Put on the objects of the run, as for costs.")
    command: str | None = Field(
        None,
        description="What the leader runs. Empty: `python -m prefect flow-run execute`, or what carries a bundle out.",
    )
