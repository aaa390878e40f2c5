"""Which cluster is meant?"""

from __future__ import annotations

from dataclasses import dataclass

from prefect_tpu.infra.zones import check_cluster, parts_of

_GKE = "gke://"


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeCluster:
    """A cluster by its place in Google Cloud."""

    project: str
    location: str
    cluster: str

    @property
    def resource_name(self) -> str:
        """As the Container API calls it."""
        return f"projects/{self.project}/locations/{self.location}/clusters/{self.cluster}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterName:
    """What somebody called a cluster; with neither part, the one this process is in or the kubeconfig's current one."""

    context: str | None = None
    gke: GkeCluster | None = None

    @classmethod
    def parse(cls, text: str | None) -> ClusterName:
        """Read a kubeconfig context, `gke://project/location/cluster`, or nothing.

        Raises:
            UsageError: it begins like an address of GKE and is none.
        """
        text = (text or "").strip()
        check_cluster(text)
        parts = parts_of(text) if "://" in text else None
        return cls(context=text or None) if parts is None else cls(gke=GkeCluster(**parts))

    @property
    def place(self) -> GkeCluster | None:
        """Where in Google Cloud it is, as far as its name says: gcloud names the contexts that it writes by it too."""
        if self.gke is None and (parts := parts_of(self.context)) is not None:
            return GkeCluster(**parts)
        return self.gke

    def __str__(self) -> str:
        if self.gke is not None:
            return f"{_GKE}{self.gke.project}/{self.gke.location}/{self.gke.cluster}"
        return self.context or ""
