"""Two workers that bring flow runs into a cluster: ours, and Prefect's own for Kubernetes. Their pods are empty."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cluster import Cluster
from control_plane import Object, users
from gcs import Gcs
from neighbour import find_venv
from prefect_server import PREFECT, Server
from rights import RBAC, WORKER, grant_worker
from scale_counts import OWN

from prefect_tpu.flows.work_pool.template import base_job_template
from prefect_tpu.infra import layout
from prefect_tpu.infra.contract import ExitCode, HostRecord, StopReason, write_json
from prefect_tpu.infra.job import name_from_run

ACCELERATOR, CHIPS = "v6e-8:spot", "8"
TOLERATIONS = [{"operator": "Exists"}]
JOB, ATTEMPT, RUN = "prefect-tpu/job", "prefect-tpu/attempt", "prefect.io/flow-run-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What both are measured on. way: where workers find Prefect, which counts what passes."""

    cluster: Cluster
    server: Server
    gcs: Gcs
    folder: Path
    way: str


class Side(Protocol):
    """One worker and its pool. comes_back: whether a lost run starts again by itself."""

    name: str
    comes_back: bool
    deployment: str

    @property
    def user(self) -> str: ...

    def prepare(self) -> None: ...

    @property
    def command(self) -> Sequence[str]: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    def create(self) -> str:
        """A run, due now; its id."""

    def run_of(self, pod: Object) -> str:
        """The run of a pod."""

    def came_up(self, pod: Object) -> None:
        """What the host itself writes when it begins."""

    def ends(self, pod: Object) -> None:
        """What it writes when it has left in time."""


@dataclass(slots=True, kw_only=True)
class _Side:
    stage: Stage
    name: str
    kind: str
    comes_back: bool
    deployment: str = ""

    def make_pool(self, template: Mapping[str, Any]) -> None:
        ask = self.stage.server.ask
        ask("/work_pools/", name=self.name, type=self.kind, base_job_template=template)
        flow = ask("/flows/", name=f"of-{self.name}")
        made = ask(
            "/deployments/", name=self.name, flow_id=flow["id"], entrypoint="flows.py:flow", path="/",
            work_pool_name=self.name,
        )  # fmt: skip
        self.deployment = made["id"]

    def new_run(self) -> str:
        return str(self.stage.server.ask(f"/deployments/{self.deployment}/create_flow_run", parameters={})["id"])

    def kubeconfig(self, account: str) -> Path:
        cluster = self.stage.cluster
        token = users.token_of(cluster.api, self.name, account)
        path = self.stage.folder / f"{self.name}.kubeconfig"
        return users.write_kubeconfig(path, cluster.plane.server, token, self.name)

    def settings(self) -> dict[str, str]:
        environment = dict(self.stage.server.environment)
        return {**environment, "PREFECT_API_URL": f"{self.stage.way}/api", "PREFECT_LOGGING_LEVEL": "WARNING"}

    def words(self, prefect: Sequence[str]) -> list[str]:
        return [*prefect, "worker", "start", "--type", self.kind, "--pool", self.name, "--name", self.name]


@dataclass(slots=True, kw_only=True)
class Ours(_Side):
    """A pool of type `tpu-slice`."""

    name: str = "ours"
    kind: str = "tpu-slice"
    comes_back: bool = True
    bucket: str = ""
    _runs: dict[str, str] = field(default_factory=dict)

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.name}:{WORKER}"

    def prepare(self) -> None:
        self.stage.cluster.make_namespace(self.name)
        grant_worker(self.stage.cluster, self.name)
        self.bucket = self.stage.gcs.new_bucket()
        variables = {
            "backend": "jobset",
            "accelerator": ACCELERATOR,
            "image": "nothing.example/flows:1",
            "namespace": self.name,
            "output": f"gs://{self.bucket}/jobs",
            "cpu": "1",
            "memory": "1Gi",
            "max_preemptions": 1000,
        }
        self.make_pool(base_job_template(variables))

    @property
    def command(self) -> Sequence[str]:
        return self.words(PREFECT)

    @property
    def environment(self) -> Mapping[str, str]:
        config = self.kubeconfig(WORKER)
        return {**self.settings(), **self.stage.gcs.environment, "KUBECONFIG": str(config)}

    def create(self) -> str:
        made = self.new_run()
        self._runs[name_from_run(made)] = made
        return made

    def run_of(self, pod: Object) -> str:
        return self._runs[pod["metadata"]["labels"][JOB]]

    def came_up(self, pod: Object) -> None:
        self._write(pod, layout.started, write_json({"pid": 1, "machine": pod["spec"]["nodeName"]}))

    def ends(self, pod: Object) -> None:
        attempt = int(pod["metadata"]["labels"][ATTEMPT])
        record = HostRecord(attempt=attempt, host=0, exit_code=ExitCode.PREEMPTED, stop_reason=StopReason.NOTICE)
        self._write(pod, layout.record, record.to_json())

    def _write(self, pod: Object, name: Any, data: bytes) -> None:
        labels = pod["metadata"]["labels"]
        place = urllib.parse.quote(f"jobs/{labels[JOB]}/{name(int(labels[ATTEMPT]), 0)}", safe="")
        url = f"{self.stage.gcs.url}/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={place}"
        headers = {"User-Agent": OWN, "Content-Type": "application/octet-stream"}
        urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=60).close()


@dataclass(slots=True, kw_only=True)
class Stock(_Side):
    """Prefect's own worker for Kubernetes, with its observer, in its own environment. It starts no lost run again."""

    name: str = "stock"
    kind: str = "kubernetes"
    comes_back: bool = False

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.name}:worker"

    def prepare(self) -> None:
        cluster = self.stage.cluster
        cluster.make_namespace(self.name)
        users.make_service_account(cluster.api, self.name, "worker", [])
        everything = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"kind": "ServiceAccount", "name": "worker", "namespace": self.name}
        binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "stock-worker"}}
        path = f"/apis/{RBAC}/v1/clusterrolebindings/stock-worker"
        cluster.api.apply(path, {**binding, "roleRef": everything, "subjects": [subject]})
        self.make_pool(self._template())

    def _template(self) -> dict[str, Any]:
        asked = [*self._prefect, "work-pool", "get-default-base-job-template", "--type", "kubernetes"]
        done = subprocess.run(asked, env=self.settings(), capture_output=True, text=True, timeout=180)
        template: dict[str, Any] = json.loads(done.stdout)
        pod = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
        pod["tolerations"] = TOLERATIONS
        pod["containers"][0]["resources"] = {name: {"google.com/tpu": CHIPS} for name in ("limits", "requests")}
        fields = template["variables"]["properties"]
        fields["namespace"]["default"] = self.name
        fields["image"]["default"] = "nothing.example/flows:1"
        return template

    @property
    def _prefect(self) -> list[str]:
        return [str(find_venv() / "bin" / "prefect")]

    @property
    def command(self) -> Sequence[str]:
        return self.words(self._prefect)

    @property
    def environment(self) -> Mapping[str, str]:
        # As its own pages advise: it sees the namespace of its Jobs alone.
        alone = {"PREFECT_INTEGRATIONS_KUBERNETES_OBSERVER_NAMESPACES": self.name}
        return {**self.settings(), **alone, "KUBECONFIG": str(self.kubeconfig("worker"))}

    def create(self) -> str:
        return self.new_run()

    def run_of(self, pod: Object) -> str:
        return str(pod["metadata"]["labels"][RUN])

    def came_up(self, pod: Object) -> None:
        """Its pods write nothing."""

    def ends(self, pod: Object) -> None:
        """Its pods write nothing."""
