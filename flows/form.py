"""What do the groups of fields mean that the form of the flow `train` shows? With their defaults and their help."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Timing(BaseModel):
    """How long the launcher waits, in seconds."""

    grace: float = Field(30.0, gt=0, description="From the notice that a host must go to its end.")
    orphan_after: float = Field(60.0, gt=0, description="Until hosts that nobody drives save and leave.")
    join_timeout: float = Field(120.0, gt=0, description="Until all hosts have met.")
    provision_timeout: float = Field(86_400.0, gt=0, description="Without a slice, until the job is given up.")
    deadline: float | None = Field(None, gt=0, description="From the start of an attempt to its end.")
    stall_timeout: float | None = Field(1_800.0, gt=0, description="Without a step on any host, until it is ended.")


class Training(BaseModel):
    """What else the flow `train` takes, for those that call it."""

    model_config = ConfigDict(extra="forbid")

    fallback_accelerators: list[str] = Field([], description="Taken in this order where the first is not to be had.")
    env: dict[str, str] = Field({}, description="Plain environment variables of the program; no secrets.")
    checkpoint_every: float = Field(600.0, gt=0, description="Seconds between checkpoints.")
    max_preemptions: int = Field(10, ge=0, description="Restarts without progress before a job is given up.")
    max_failures: int = Field(0, ge=0, description="Restarts after an error of the program.")
    slices: int = Field(1, ge=1, description="How many slices the program spans.")
    mesh: str = Field("", description="Of a program that says none, such as `data=-1,tp=4`.")
    drills: list[str] = Field([], description="Failures to rehearse.")
    profile: str = Field("", description="Which steps all hosts record, such as `skip=10,steps=5`. Empty: none.")
    timing: Timing = Field(Timing(), description="How long the launcher waits.")

    def given(self) -> dict[str, Any]:
        """As parameters of the flow."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def settings(self) -> dict[str, Any]:
        """As settings of a job: all but its accelerators."""
        plain = {name: value for name, value in self.given().items() if name not in ("fallback_accelerators", "timing")}
        return {**plain, "drills": tuple(self.drills), **self.timing.model_dump()}


class Pods(BaseModel):
    """How hosts run in a cluster, beside their image; nothing of it is needed."""

    model_config = ConfigDict(extra="forbid")

    fallback_clusters: list[str] = Field([], description="Where else, in this order, where the cluster has no slice.")
    zones: list[str] = Field([], description="Where slices may be, in this order. Empty: wherever the cluster has any.")
    make_pools: bool = Field(False, description="Make a node pool for each slice, and delete it after.")
    node_service_account: str = Field("", description="Whose rights such nodes have. Empty: the project's default.")
    namespace: str = Field("default", description="Where the objects are made.")
    queue: str = Field("", description="A Kueue LocalQueue that admits the job.")
    service_account: str = Field("", description="Whose rights the program has.")
    secrets: dict[str, str] = Field({}, description="Environment variable → `secret/key`; never the secret itself.")
    volumes: dict[str, str] = Field(
        {}, description="Path → `gs://bucket/folder`, `configmap:NAME`, `secret:NAME`, `claim:NAME` or `empty:SIZE`."
    )
    python: str = Field("python3", description="The interpreter in the image.")
    pull_secrets: list[str] = Field([], description="Secrets by which the nodes fetch the image.")
    cpu: str = Field("", description="CPUs of each host, such as `8`. Empty: what its machine has left for pods.")
    memory: str = Field("", description="Of each host, such as `64Gi`; then no more. Empty: as for CPUs, no limit.")
    ephemeral_storage: str = Field("", description="Disk of each host, such as `50Gi`; then no more.")
    shared_memory: str = Field("", description="Size of /dev/shm, such as `16Gi`.")
    priority_class: str = Field("", description="By which the scheduler chooses who goes first.")
    reservation: str = Field("", description="Its name, or `projects/PROJECT/reservations/NAME`.")
    provisioning_request: str = Field("", description="Of queued provisioning: the request that holds the nodes.")
    node_selector: dict[str, str] = Field({}, description="Labels that nodes must have beside those of the chips.")
    labels: dict[str, str] = Field({}, description="Put on the job's objects, as for costs.")
    annotations: dict[str, str] = Field({}, description="Put on the job's objects.")
    pathways: dict[str, Any] = Field(
        {}, description="Of the backend `pathways`, by name: `jax` or `version`, `scratch`, `head_pool`, …."
    )
    ttl: int = Field(86_400, ge=0, description="Seconds that the objects of an attempt stay after its end.")

    def said(self, image: str, cluster: str) -> dict[str, Any]:
        """All that was said of pods, by name."""
        return {"image": image, "cluster": cluster, **self.model_dump(exclude_defaults=True)}
