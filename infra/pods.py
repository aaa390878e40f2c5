"""What does a job want of its pods? Only for backends that run hosts in a Kubernetes cluster.

Names of things that lie in the cluster, never their contents: a secret is
named, and Kubernetes alone hands its value to the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from prefect_tpu.infra import contract
from prefect_tpu.infra import pod_checks as checks
from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.job_checks import nearest
from prefect_tpu.infra.pathways import PathwaysSettings, pathways_settings

_QUANTITIES = ("cpu", "memory", "ephemeral_storage", "shared_memory")
_NAMES = ("service_account", "priority_class", "provisioning_request")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """How the hosts of a job run as pods.

    image: what each host's container runs; it needs Python and whatever the program needs, and nothing of ours.
    cluster: a kubeconfig context, `gke://project/location/cluster`, or None: the cluster this process is in, else the
        kubeconfig's current context.
    fallback_clusters: where else, in order of preference, where `cluster` has no slice to give.
    zones: where slices may be, in order of preference; by default wherever the cluster has or makes them.
    make_pools: make a node pool for each slice and give it back, by the Container API of Google. Else nodes are found,
        or the cluster makes them: by autoscaling, auto-provisioning or a queue.
    node_service_account: with `make_pools`, whose rights the nodes have, as an email address; by default the project's.
    namespace: where the objects are made.
    python: the interpreter in the image.
    service_account: whose rights the program has.
    pull_secrets: names of the secrets by which the nodes fetch the image.
    cpu, memory, ephemeral_storage: Kubernetes quantities of each host; by default what the accelerator's machine has
        left for pods, where that is known.
    shared_memory: the size of /dev/shm.
    priority_class: by which the scheduler chooses who goes first.
    queue: a Kueue LocalQueue that admits the job.
    reservation: the name of a reservation, `projects/P/reservations/R` for a shared one.
    provisioning_request: of queued provisioning, the name of the request that holds the nodes.
    secrets: environment variable → `secret/key`.
    volumes: absolute path → `gs://bucket[/folder]`, `configmap:NAME`, `secret:NAME`, `claim:NAME` or `empty[:SIZE]`.
    node_selector, labels, annotations: added to ours.
    ttl: seconds after its end that the objects of an attempt stay.
    pathways: of the backend `pathways` alone.
    """

    image: str
    cluster: str | None = None
    fallback_clusters: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    make_pools: bool = False
    node_service_account: str | None = None
    namespace: str = "default"
    python: str = "python3"
    service_account: str | None = None
    pull_secrets: tuple[str, ...] = ()
    cpu: str | None = None
    memory: str | None = None
    ephemeral_storage: str | None = None
    shared_memory: str | None = None
    priority_class: str | None = None
    queue: str | None = None
    reservation: str | None = None
    provisioning_request: str | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    ttl: int = 86_400
    pathways: PathwaysSettings | None = None

    def __post_init__(self) -> None:
        checks.check_image(self.image)
        checks.check_text("cluster", self.cluster)
        checks.check_clusters(self.cluster, self.fallback_clusters)
        checks.check_zones(self.zones)
        checks.check_truth("make_pools", self.make_pools)
        checks.check_email("node_service_account", self.node_service_account)
        checks.check_text("python", self.python or "")
        checks.check_label("namespace", self.namespace or "")
        checks.check_label("queue", self.queue)
        for name in _QUANTITIES:
            checks.check_quantity(name, getattr(self, name))
        for name in _NAMES:
            checks.check_name(name, getattr(self, name))
        checks.check_names("pull_secrets", self.pull_secrets)
        checks.check_reservation(self.reservation)
        checks.check_secrets(self.secrets)
        checks.check_volumes(self.volumes)
        checks.check_labels("node_selector", self.node_selector, are_ours_free=True)
        checks.check_labels("labels", self.labels)
        checks.check_annotations(self.annotations)
        checks.check_seconds("ttl", self.ttl)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> PodSettings:
        known = {f.name for f in fields(cls)}
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in data.items()
        }
        with contract.reading("The pod settings of a job"):
            if values.get("pathways") is not None:
                values["pathways"] = PathwaysSettings.from_json(values["pathways"])
            return cls(**{key: value for key, value in values.items() if key in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """What a saved cluster says for its jobs: settings of pods by name, and the output of all jobs; "" says nothing."""

    pods: Mapping[str, Any] = field(default_factory=dict)
    output: str = ""

    def completed(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """What a job says itself, and for the rest this."""
        return {**self.pods, **{name: value for name, value in said.items() if value is not None and value != ""}}


def in_pods(backend: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings `backend` and `pods` of a job, from what a person said of both; empty text says nothing.

    Whoever says anything of pods, be it an image or a cluster, wants a cluster, and whoever says anything of Pathways
    wants that; else hosts are processes here.
    Raises `UsageError` for what contradicts itself, or lacks an image.
    """
    said = {name: value for name, value in given.items() if value is not None and value != ""}
    chosen = backend or ("pathways" if said.get("pathways") else "jobset" if said else "local")
    if chosen != "local":
        return {"backend": chosen, "pods": pod_settings(said)}
    if said:
        raise UsageError(
            f"The local backend has no pods, and {', '.join(said)} was given: leave it out, or name the backend"
            " 'jobset'."
        )
    return {"backend": chosen} if backend else {}


def pod_settings(given: Mapping[str, Any]) -> PodSettings:
    """What a person gave by name. Raises `UsageError` for an unknown name, with the nearest one, or no image."""
    known = [f.name for f in fields(PodSettings)]
    for name in given:
        if name not in known:
            hint = nearest(str(name), known) or f"They have: {', '.join(known)}."
            raise UsageError(f"Pods have no setting {name!r}. {hint}")
    if "image" not in given:
        raise UsageError(
            "Hosts in a cluster need an image: name one that has Python and the program's packages (image=…, --image)."
        )
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if said := values.pop("pathways", None):
        values["pathways"] = pathways_settings(said)
    return PodSettings(**values)
