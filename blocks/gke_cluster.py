"""Where do jobs of this team run? A cluster of Google Kubernetes Engine, saved once under a name."""

from __future__ import annotations

from typing import Any, ClassVar

from prefect.blocks.core import Block
from pydantic import Field, HttpUrl, model_validator

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.gcp.clusters import ClusterName, GkeCluster
from prefect_tpu.infra.gcp.contradictions import contradiction_of_places
from prefect_tpu.infra.pods import PodDefaults, pod_settings


class GKECluster(Block):
    """A cluster that trains, and what its jobs have in common; nothing of it is secret.

    Jobs name it as their cluster, `block:my-cluster`; what a job says itself counts more.

    Examples:
        See what is saved:
        ```python
        from prefect_tpu.blocks import GKECluster

        cluster = GKECluster.load("BLOCK_NAME")
        ```
    """

    _block_type_name: ClassVar[str] = "GKE Cluster"
    _block_type_slug: ClassVar[str] = "gke-cluster"
    _description: ClassVar[str] = "A cluster of Google Kubernetes Engine on whose TPU slices jobs train."
    # Of what it names; pages of our own have no public address yet, nor has a picture.
    _documentation_url: ClassVar[HttpUrl | None] = HttpUrl(
        "https://cloud.google.com/kubernetes-engine/docs/concepts/tpus"
    )

    project: str = Field("", description="Google Cloud project of the cluster. Empty where a context is given.")
    location: str = Field("", description="Zone or region of the cluster, such as `us-east5-b`.")
    cluster: str = Field("", description="Name of the cluster in that project and location.")
    context: str = Field(
        "",
        description="In place of these three, a context of the kubeconfig of whoever runs jobs. All four empty: the"
        " cluster that the flow runs in.",
    )
    namespace: str = Field("default", description="Where the objects of jobs are made.")
    output: str = Field("", description="Where all jobs write, such as `gs://my-bucket/jobs`.")
    image: str = Field("", description="What each host's container runs where a job names no image itself.")
    service_account: str = Field("", description="Whose rights programs have. Empty: the namespace's default.")
    queue: str = Field("", description="A Kueue LocalQueue that admits jobs.")
    pull_secrets: list[str] = Field([], description="Names of the secrets by which nodes fetch the image.")
    zones: list[str] = Field([], description="Where slices may be, in this order. Empty: wherever the cluster has any.")
    make_pools: bool = Field(False, description="Make a node pool for each slice of a job, and delete it after.")
    node_service_account: str = Field(
        "", description="Whose rights the nodes of such pools have, as an email address. Empty: the project's default."
    )

    @model_validator(mode="after")
    def _check(self) -> GKECluster:
        """What could never be used is refused where it is typed in."""
        try:
            defaults = self.defaults()
            places = pod_settings({"image": "any", **defaults.pods})
            if why := contradiction_of_places(places):
                raise UsageError(why)
        except UsageError as exc:
            raise ValueError(str(exc)) from exc
        return self

    def defaults(self) -> PodDefaults:
        """The same for `infra`, which knows no blocks."""
        said: dict[str, Any] = {
            "cluster": self.address(),
            "namespace": self.namespace,
            "image": self.image,
            "service_account": self.service_account,
            "queue": self.queue,
            "pull_secrets": tuple(self.pull_secrets),
            "zones": tuple(self.zones),
            "make_pools": self.make_pools,
            "node_service_account": self.node_service_account,
        }
        return PodDefaults(pods={name: value for name, value in said.items() if value}, output=self.output)

    def address(self) -> str:
        """As `--cluster` takes it; empty for the cluster that the flow runs in."""
        place = {"project": self.project, "location": self.location, "cluster": self.cluster}
        missing = [name for name, value in place.items() if not value]
        if len(missing) == len(place):
            return self.context
        if missing or self.context:
            what = f"without {' and '.join(missing)}" if missing else f"and context {self.context!r} beside them"
            raise UsageError(
                f"A cluster is named by project, location and cluster, or by a context; here is {_listed(place)}"
                f" {what}: give all three, or a context alone."
            )
        return str(ClusterName.parse(str(ClusterName(gke=GkeCluster(**place)))))


def _listed(place: dict[str, str]) -> str:
    return " and ".join(f"{name} {value!r}" for name, value in place.items() if value)
