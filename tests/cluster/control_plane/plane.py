"""A real Kubernetes control plane on the loopback: etcd, API server, controllers, scheduler, JobSet, Kueue on request.

with ControlPlane(build.ready(), folder) as plane:
    plane.api.get("/api/v1/nodes")
    kubernetes.config.load_kube_config(str(plane.kubeconfig))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import urllib3
import yaml

from control_plane import programs, users
from control_plane.add_ons import JOBSET, KUEUE, KUEUE_METRICS_CERTIFICATES, AddOn, is_established, make_resources
from control_plane.add_ons import make_webhooks as install_webhooks
from control_plane.api import Api
from control_plane.authority import Authority, write_signing_key
from control_plane.processes import Processes, free_ports, with_files
from control_plane.programs import Pace, Site

PORTS = ("etcd", "etcd-peer", "api", "kube-controller-manager", "kube-scheduler", *JOBSET.ports, *KUEUE.ports)


class ControlPlane:
    """One control plane; enter it to start it.

    api: a client that may do everything. kubeconfig: the same for other clients.
    audited: users whose every request is written down, in `site.audit_log`.
    """

    def __init__(self, built: Path, folder: Path, pace: Pace | None = None, audited: Sequence[str] = ()) -> None:
        self._built, self.folder = built, folder
        self.site = _new_site(folder, pace or Pace(), tuple(audited))
        self.processes = Processes(built / "bin", folder)
        self.server = users.Server(url=self.site.server, authority=self.site.authority.path)
        self._tokens = users.new_tokens()
        users.write_tokens(folder / "tokens.csv", self._tokens)
        self.api = self.api_of(self._tokens[users.ADMINISTRATOR])
        self.kubeconfig = self._kubeconfig_of(users.ADMINISTRATOR, "admin")
        for name in users.PROGRAMS:
            self._kubeconfig_of(f"system:{name}", name)
        self._health = urllib3.PoolManager(ca_certs=str(self.site.authority.path), retries=False)

    def __enter__(self) -> ControlPlane:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def api_of(self, token: str) -> Api:
        """A client of whoever has this token."""
        return Api(self.site.server, str(self.site.authority.path), token)

    @property
    def kubelet_api(self) -> Api:
        """The client of our kubelet."""
        return self.api_of(self._tokens[users.KUBELET])

    def kubeconfig_for(self, namespace: str, name: str, rules: Sequence[Mapping[str, Any]]) -> Path:
        """A kubeconfig of a new service account, which may do what these rules of a Role allow in its namespace."""
        token = users.make_service_account(self.api, namespace, name, rules)
        return users.write_kubeconfig(self.folder / f"{namespace}-{name}.kubeconfig", self.server, token, namespace)

    def start_kueue(self) -> None:
        """Kueue beside the rest."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
        self.api.apply("/api/v1/namespaces/kueue-system", namespace)
        self._make_resources(KUEUE)
        scratch = self.folder / "kueue-root"
        self._start_add_on(KUEUE, with_files(self.site.keys / "webhook", KUEUE_METRICS_CERTIFICATES, scratch))
        self._until_healthy("kueue", "kueue-health", "http")
        for plural in KUEUE.converted:  # a resource that is to be converted is not served for a moment
            path = f"/apis/kueue.x-k8s.io/v1beta2/{plural}"
            self.processes.until("kube-apiserver", partial(self.api.get, path))

    def stop(self) -> None:
        """End every process."""
        self.processes.stop()

    def _start(self) -> None:
        site, start = self.site, self.processes.start
        start("etcd", programs.etcd(site))
        start("kube-apiserver", programs.kube_apiserver(site))
        self._until_healthy("kube-apiserver", "api", "https")
        # Before the controller manager: its garbage collector looks at the resources when it starts, then every 30 s.
        self._make_resources(JOBSET)
        (site.folder / "kube-scheduler.yaml").write_text(yaml.safe_dump(programs.scheduler_configuration(site)))
        start("kube-scheduler", programs.kube_scheduler(site))
        start("kube-controller-manager", programs.kube_controller_manager(site))
        self._start_add_on(JOBSET)
        for name in ("kube-controller-manager", "kube-scheduler"):
            self._until_healthy(name, name, "https")
        self._until_healthy("jobset", "jobset-health", "http")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.processes.until("kube-controller-manager", lambda: self.api.get(account))

    def _make_resources(self, add_on: AddOn) -> None:
        for crd in make_resources(self.api, self._built / add_on.name):
            self.processes.until("kube-apiserver", partial(is_established, self.api, crd))

    def _start_add_on(self, add_on: AddOn, inside: Sequence[str] = ()) -> None:
        self.processes.start(add_on.name, add_on.arguments(self.site), inside)
        install_webhooks(self.api, self.site, add_on, self._built / add_on.name)

    def _until_healthy(self, program: str, port: str, scheme: str) -> None:
        path = "healthz" if program.startswith("kube-") and program != "kube-apiserver" else "readyz"
        url = f"{scheme}://127.0.0.1:{self.site.ports[port]}/{path}"
        self.processes.until(program, lambda: self._health.request("GET", url, timeout=5).status == 200)

    def _kubeconfig_of(self, user: str, name: str) -> Path:
        return users.write_kubeconfig(self.site.kubeconfig(name), self.server, self._tokens[user])


def _new_site(folder: Path, pace: Pace, audited: tuple[str, ...]) -> Site:
    keys = folder / "pki"
    authority = Authority(keys)
    authority.issue(keys / "webhook", "webhook")
    write_signing_key(keys / "tokens.key", keys / "tokens.pub")
    return Site(
        folder=folder,
        ports=free_ports(PORTS),
        authority=authority,
        serving=authority.issue(keys / "serving", "kube-apiserver"),
        kubelet_client=authority.issue(keys / "kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
        pace=pace,
        audited=audited,
    )
