"""Where in the API do objects of a kind live?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from prefect_tpu.infra.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A type of object that the API server may know.

    group: "" for the core.
    versions: those we can speak, the best first; the client finds out which of several the cluster serves.
    is_namespaced: whether its objects lie in namespaces.
    """

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As `apiVersion` of a manifest says it, for the best version."""
        return f"{self.group}/{self.versions[0]}" if self.group else self.versions[0]

    @property
    def full_name(self) -> str:
        """As `kubectl` says it: `pods`, `jobsets.jobset.x-k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, *rest: str) -> str:
        """The address of its objects, of those in one namespace, or of one of them and a part of it."""
        root = f"/apis/{self.group}/{self.versions[0]}" if self.group else f"/api/{self.versions[0]}"
        where = ("namespaces", namespace) if namespace and self.is_namespaced else ()
        return "/".join([root, *(quote(part, safe="") for part in (*where, self.plural, *rest))])

    def only(self, version: str) -> Resource:
        """The same type in one version."""
        return Resource(
            group=self.group,
            versions=(version,),
            plural=self.plural,
            kind=self.kind,
            is_namespaced=self.is_namespaced,
        )


def _core(plural: str, kind: str, *, is_namespaced: bool = True) -> Resource:
    return Resource(group="", versions=("v1",), plural=plural, kind=kind, is_namespaced=is_namespaced)


def _kueue(plural: str, kind: str, *, is_namespaced: bool = True) -> Resource:
    versions = ("v1beta2", "v1beta1")
    return Resource(group="kueue.x-k8s.io", versions=versions, plural=plural, kind=kind, is_namespaced=is_namespaced)


PODS = _core("pods", "Pod")
EVENTS = _core("events", "Event")
CONFIG_MAPS = _core("configmaps", "ConfigMap")
SECRETS = _core("secrets", "Secret")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount")
NODES = _core("nodes", "Node", is_namespaced=False)
NAMESPACES = _core("namespaces", "Namespace", is_namespaced=False)
JOBS = Resource(group="batch", versions=("v1",), plural="jobs", kind="Job")
JOBSETS = Resource(group="jobset.x-k8s.io", versions=("v1alpha2",), plural="jobsets", kind="JobSet")
WORKLOADS = _kueue("workloads", "Workload")
LOCAL_QUEUES = _kueue("localqueues", "LocalQueue")
CLUSTER_QUEUES = _kueue("clusterqueues", "ClusterQueue", is_namespaced=False)
RESOURCE_FLAVORS = _kueue("resourceflavors", "ResourceFlavor", is_namespaced=False)
DEPLOYMENTS = Resource(group="apps", versions=("v1",), plural="deployments", kind="Deployment")
ACCESS_REVIEWS = Resource(
    group="authorization.k8s.io",
    versions=("v1",),
    plural="selfsubjectaccessreviews",
    kind="SelfSubjectAccessReview",
    is_namespaced=False,
)

KNOWN = tuple(value for value in list(globals().values()) if isinstance(value, Resource))


def resource_of(manifest: Mapping[str, Any]) -> Resource:
    """The type a manifest says it is of, in the version it says."""
    kind, (group, _, version) = manifest.get("kind"), str(manifest.get("apiVersion")).rpartition("/")
    for resource in KNOWN:
        if resource.kind == kind and resource.group == group and version in resource.versions:
            return resource.only(version)
    raise UsageError(
        f"A manifest of kind {kind!r} and apiVersion {manifest.get('apiVersion')!r} is of no type that is known here:"
        f" give one of {', '.join(sorted(f'{known.kind} ({known.api_version})' for known in KNOWN))}."
    )


def with_labels(labels: Mapping[str, str]) -> str:
    """A selector of the objects that have all these labels, as `kubectl get -l` takes it."""
    return ",".join(f"{name}={value}" for name, value in labels.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects: of one type, in one namespace or all, by selectors as `kubectl` writes them."""

    resource: Resource
    namespace: str | None = None
    labels: str = ""
    fields: str = ""

    @property
    def query(self) -> dict[str, str]:
        asked = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in asked.items() if value}
