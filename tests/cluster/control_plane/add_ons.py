"""JobSet and Kueue beside a control plane: their resources, their settings, their webhooks by URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from control_plane.api import Api, Object
from control_plane.programs import Site

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
# In a cluster a patch of its kustomization says so: its pod webhooks see only the pods of JobSets.
OF_JOBSETS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
# Kueue 0.17 reads certificates here whenever they are not its own.
KUEUE_METRICS_CERTIFICATES = Path("/etc/kueue/metrics/certs")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOn:
    """A controller with custom resources.

    resources: only webhooks for these are installed; all of them where it is empty.
    converted: resources whose versions its webhook converts.
    selectors: an object selector for webhooks by name.
    """

    name: str
    settings: Callable[[Site], dict[str, Any]]
    resources: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()
    selectors: Mapping[str, Object] = field(default_factory=dict)

    @property
    def ports(self) -> tuple[str, str]:
        """The names of its ports: webhooks, health."""
        return f"{self.name}-webhook", f"{self.name}-health"

    def arguments(self, site: Site) -> list[str]:
        """How it is called; its settings lie in a file."""
        path = site.folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump({**_common(self, site), **self.settings(site)}))
        return [f"--kubeconfig={site.kubeconfig(self.name)}", f"--config={path}", "--zap-log-level=info"]


def _common(add_on: AddOn, site: Site) -> dict[str, Any]:
    webhook, health = (site.ports[name] for name in add_on.ports)
    return {
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(site.keys / "webhook")},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
    }


def _jobset_settings(site: Site) -> dict[str, Any]:
    return {"apiVersion": "config.jobset.x-k8s.io/v1alpha1"}


def _kueue_settings(site: Site) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "namespace": "kueue-system",
        "clientConnection": {"qps": 500, "burst": 1000},
        "manageJobsWithoutQueueName": False,
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        "featureGates": {"VisibilityOnDemand": False},  # an API server of its own, on all interfaces
    }


JOBSET = AddOn(
    name="jobset",
    settings=_jobset_settings,
    selectors={"mpod.kb.io": OF_JOBSETS, "vpod.kb.io": OF_JOBSETS},
)
KUEUE = AddOn(
    name="kueue",
    settings=_kueue_settings,
    resources=("clusterqueues", "cohorts", "localqueues", "resourceflavors", "workloads", "jobsets", "jobs"),
    converted=("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads"),
)


def make_resources(api: Api, manifests: Path) -> list[str]:
    """Create the custom resources of a folder; their names, to be waited for."""
    made = []
    for crd in _documents(manifests / "crds"):
        if crd["kind"] == "CustomResourceDefinition":
            crd["spec"].pop("conversion", None)
            made.append(str(api.post(CRDS, crd)["metadata"]["name"]))
    return made


def is_established(api: Api, crd: str) -> bool:
    """Whether objects of a custom resource can be made."""
    conditions = api.get(f"{CRDS}/{crd}")["status"].get("conditions") or []  # null at first
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def make_webhooks(api: Api, site: Site, add_on: AddOn, manifests: Path) -> None:
    """The webhooks of a cluster's manifests, pointed at a server on the loopback."""
    for configuration in _documents(manifests / "webhooks"):
        if configuration["kind"] in PLURALS:
            name = f"{add_on.name}-{configuration['metadata']['name']}"
            hooks = [_by_url(hook, site, add_on) for hook in configuration["webhooks"] if _is_wanted(hook, add_on)]
            body = {**configuration, "metadata": {"name": name}, "webhooks": hooks}
            api.apply(f"{HOOKS}/{PLURALS[configuration['kind']]}/{name}", body)
    for plural in add_on.converted:
        client = _client(site, add_on, "/convert")
        conversion = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}
        body = {"spec": {"conversion": conversion}}
        api.patch(f"{CRDS}/{plural}.kueue.x-k8s.io", body, "merge-patch")


def _is_wanted(hook: Object, add_on: AddOn) -> bool:
    named = {resource.split("/")[0] for rule in hook["rules"] for resource in rule["resources"]}
    return not add_on.resources or bool(named & set(add_on.resources))


def _by_url(hook: Object, site: Site, add_on: AddOn) -> Object:
    selector = add_on.selectors.get(hook["name"])
    client = _client(site, add_on, hook["clientConfig"]["service"]["path"])
    return {**hook, "clientConfig": client, **({"objectSelector": selector} if selector else {})}


def _client(site: Site, add_on: AddOn, path: str) -> Object:
    url = f"https://127.0.0.1:{site.ports[add_on.ports[0]]}{path}"
    return {"url": url, "caBundle": site.authority.bundle}


def _documents(folder: Path) -> Iterator[Object]:
    for path in sorted(folder.glob("*.yaml")):
        yield from (
            document
            for document in yaml.safe_load_all(path.read_text())
            if isinstance(document, dict) and "kind" in document and "metadata" in document
        )
