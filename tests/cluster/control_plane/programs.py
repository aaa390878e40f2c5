"""How each of Kubernetes' own programs is called: command lines as a function of where the control plane lives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane.authority import Authority, KeyPair

# What a GKE control plane runs for batch workloads; everything that is not named here stays off.
LOOK_AGAIN_SECONDS = 20
CONTROLLERS = (
    "job-controller",
    "garbage-collector-controller",  # owner references: JobSet, Job, Pod
    "namespace-controller",
    "serviceaccount-controller",  # makes `default`, without which no pod is admitted
    "root-ca-certificate-publisher-controller",
    "taint-eviction-controller",  # NoExecute taints: DisruptionTarget, then deleted
    "node-lifecycle-controller",  # no heartbeat: NotReady, then a taint
    "pod-garbage-collector-controller",  # pods of deleted nodes: DisruptionTarget, Failed
    "disruption-controller",
    "deployment-controller",  # the worker of a work pool is one
    "replicaset-controller",
    "resourcequota-controller",
    "ttl-after-finished-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long Kubernetes waits for a node; a real cluster's values make tests of it slow.

    node_grace_seconds: without a heartbeat until a node counts as unknown; 40 in a real cluster.
    toleration_seconds: until pods of such a node are deleted; 300 in a real cluster.
    """

    node_grace_seconds: int = 30
    toleration_seconds: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where one control plane lives: a folder, its ports by name, its certificates.

    audited: users whose every request is written down.
    """

    folder: Path
    ports: Mapping[str, int]
    authority: Authority
    serving: KeyPair
    kubelet_client: KeyPair
    pace: Pace
    audited: tuple[str, ...] = ()

    @property
    def keys(self) -> Path:
        """The folder of its certificates and keys."""
        return self.folder / "pki"

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports['api']}"

    @property
    def audit_log(self) -> Path:
        """What audited users asked for: an object a line, when it is begun to be answered and when that is done."""
        return self.folder / "audit.log"

    def kubeconfig(self, program: str) -> Path:
        """By which a program finds the API server and says who it is."""
        return self.folder / f"{program}.kubeconfig"


def etcd(site: Site) -> list[str]:
    """The store; it need not survive the machine."""
    client, peer = (f"http://127.0.0.1:{site.ports[name]}" for name in ("etcd", "etcd-peer"))
    return [
        f"--data-dir={site.folder}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(site: Site) -> list[str]:
    """The API server, with RBAC and with our kubelet as the place to ask for logs."""
    seconds = site.pace.toleration_seconds
    return [
        f"--etcd-servers=http://127.0.0.1:{site.ports['etcd']}",
        "--bind-address=127.0.0.1",
        f"--secure-port={site.ports['api']}",
        "--endpoint-reconciler-type=none",  # a loopback address may not be an Endpoint
        f"--tls-cert-file={site.serving.certificate}",
        f"--tls-private-key-file={site.serving.key}",
        f"--client-ca-file={site.authority.path}",
        f"--token-auth-file={site.folder}/tokens.csv",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={site.keys}/tokens.key",
        f"--service-account-key-file={site.keys}/tokens.pub",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--anonymous-auth=true",  # /readyz
        f"--kubelet-certificate-authority={site.authority.path}",
        f"--kubelet-client-certificate={site.kubelet_client.certificate}",
        f"--kubelet-client-key={site.kubelet_client.key}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--default-not-ready-toleration-seconds={seconds}",
        f"--default-unreachable-toleration-seconds={seconds}",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--profiling=false",
        *_audit(site),
    ]


def _audit(site: Site) -> list[str]:
    """Who asked for what, of those whose requests are counted."""
    if not site.audited:
        return []
    rules = [{"level": "Metadata", "users": list(site.audited)}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    path = site.folder / "audit.json"
    path.write_text(json.dumps(policy))
    return [f"--audit-policy-file={path}", f"--audit-log-path={site.audit_log}"]


def kube_controller_manager(site: Site) -> list[str]:
    """The controllers, with quick eyes for lost nodes."""
    grace = site.pace.node_grace_seconds
    return [
        f"--kubeconfig={site.kubeconfig('kube-controller-manager')}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        *_health(site, "kube-controller-manager"),
        f"--root-ca-file={site.authority.path}",
        f"--service-account-private-key-file={site.keys}/tokens.key",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={grace}s",
        f"--node-startup-grace-period={grace}s",
        "--node-eviction-rate=100",
        "--secondary-node-eviction-rate=100",
        "--large-cluster-size-threshold=1",  # in small clusters nothing is evicted while most nodes of a zone are lost
        "--min-resync-period=1h",
        "--profiling=false",
    ]


def kube_scheduler(site: Site) -> list[str]:
    """The scheduler; what it is told lies in a file, see `scheduler_configuration`.

    It looks again at a pod that had no place when something changed, and in any case after some time: five minutes in a
    real cluster, longer than a test waits.
    """
    again = f"--pod-max-in-unschedulable-pods-duration={LOOK_AGAIN_SECONDS}s"
    return [f"--config={site.folder}/kube-scheduler.yaml", again, *_health(site, "kube-scheduler")]


def scheduler_configuration(site: Site) -> dict[str, Any]:
    """Back-off in seconds where a real cluster takes ten."""
    connection = {"kubeconfig": str(site.kubeconfig("kube-scheduler")), "qps": 1000, "burst": 2000}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": connection,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,
        "enableProfiling": False,
    }


def _health(site: Site, name: str) -> list[str]:
    """Where a program says that it is healthy, to anybody who asks."""
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={site.ports[name]}",
        f"--tls-cert-file={site.serving.certificate}",
        f"--tls-private-key-file={site.serving.key}",
        "--authentication-skip-lookup=true",
        "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
    ]
