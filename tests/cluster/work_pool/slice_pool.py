"""A `tpu-slice` pool of a Prefect server whose slices lie in a namespace of the cluster: how it is made and used."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cluster import CLONE, Cluster
from control_plane import users
from gcs import Gcs
from kubelet import python_image
from pool_workers import Workers
from prefect_server import Server, wait_for
from rights import HOST, WORKER, grant_worker
from slice_runs import SliceRun
from witness import Witness

from prefect_tpu.flows.work_pool.template import Template, base_job_template

IMAGE = "python-with-prefect"
FLOWS = Path(__file__).with_name("slice_flows.py")
SIGNS_BUCKET = "signs"
GRACE_SECONDS = 5  # for hosts that are told to leave
VENV_VARIABLE = "PREFECT_TPU_FLOW_VENV"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What all pools of a session share."""

    cluster: Cluster
    gcs: Gcs
    folder: Path

    @property
    def signs(self) -> Path:
        """The folder of this machine that pods see as `/signs`."""
        return self.cluster.kubelet.bucket(SIGNS_BUCKET)


@dataclass(slots=True, kw_only=True)
class SlicePool:
    """One of them, and the deployments of it.

    variables: of its jobs, unless a deployment says otherwise. witness: of all JobSets and pods of its namespace.
    """

    name: str
    stage: Stage
    server: Server
    namespace: str
    output: str
    workers: Workers
    variables: Mapping[str, Any]
    witness: Witness
    runs: list[SliceRun] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def deploy(self, flow: str, options: Mapping[str, Any] | None = None, **variables: Any) -> str:
        """A deployment of one of `slice_flows`; its id. options: of the deployment itself."""
        made = self.server.ask("/flows/", name=flow)
        steps = [{"prefect.deployments.steps.set_working_directory": {"directory": str(FLOWS.parent)}}]
        found = self.server.ask(
            "/deployments/",
            name=f"{self.name}-{next(self._numbers)}",
            flow_id=made["id"],
            entrypoint=f"{FLOWS.name}:{flow}",
            path=str(FLOWS.parent),
            pull_steps=steps,
            work_pool_name=self.name,
            job_variables=variables,
            enforce_parameter_schema=False,
            **(options or {}),
        )
        return str(found["id"])

    def wait_for_workers(self, count: int) -> None:
        """Until so many have asked for work."""

        def look() -> bool:
            found = self.server.ask(f"/work_pools/{self.name}/workers/filter", limit=100)
            return sum(one["status"] == "ONLINE" for one in found) >= count

        wait_for(look, f"{count} workers of pool {self.name}")

    def start(self, deployment: str, **parameters: Any) -> SliceRun:
        """A run of it, due now."""
        made = self.server.ask(f"/deployments/{deployment}/create_flow_run", parameters=parameters)
        return self.run(made["id"])

    def run(self, id: str) -> SliceRun:
        """That there is already."""
        stage = self.stage
        self.runs.append(
            SliceRun(
                id=id, server=self.server, api=stage.cluster.api, namespace=self.namespace, output=self.output,
                signs=stage.signs,
            )
        )  # fmt: skip
        return self.runs[-1]


@contextmanager
def slice_pool(
    stage: Stage, server: Server, name: str, change: Callable[[Template], Template] = lambda template: template
) -> Iterator[SlicePool]:
    """A pool, its namespace with the shipped rights, and a bucket for its output; workers are the test's to start.

    change: of the template that it is made with.
    """
    cluster, folder = stage.cluster, stage.folder / name
    folder.mkdir()
    with cluster.namespace(name):
        grant_worker(cluster, name)
        token = users.token_of(cluster.api, name, WORKER)
        kubeconfig = users.write_kubeconfig(folder / "worker.kubeconfig", cluster.plane.server, token, name)
        output = f"gs://{stage.gcs.new_bucket()}/jobs"
        variables = variables_of(name, output)
        template = change(base_job_template(variables))
        server.ask("/work_pools/", name=name, type="tpu-slice", base_job_template=template)
        environment = {**server.environment, **stage.gcs.environment, "KUBECONFIG": str(kubeconfig)}
        workers = Workers(pool=name, folder=folder, environment=environment)
        with Witness(cluster.api, name) as witness:
            try:
                yield SlicePool(
                    name=name, stage=stage, server=server, namespace=name, output=output, workers=workers,
                    variables=variables, witness=witness,
                )  # fmt: skip
            finally:
                workers.stop()


def with_prefect(stage: Stage) -> None:
    """The image of all flows: Prefect, the person's own code, and nothing of ours."""
    image = python_image(_venv())
    folders = (*image.folders, FLOWS.parent)
    stage.cluster.kubelet.images.add(IMAGE, replace(image, folders=folders, environment=stage.gcs.environment))


def variables_of(namespace: str, output: str) -> dict[str, Any]:
    """Of jobs of two hosts without chips that tell by signs how far they are."""
    return {
        "backend": "jobset",
        "accelerator": "cpu-2x1",
        "image": IMAGE,
        "namespace": namespace,
        "service_account": HOST,
        "output": output,
        "cpu": "100m",
        "memory": "1Gi",
        "volumes": {"/signs": f"gs://{SIGNS_BUCKET}"},
        "env": {"PREFECT_LOCAL_STORAGE_PATH": "/signs/results"},
        "grace": GRACE_SECONDS,
    }


def _venv() -> Path:
    found = Path(os.environ.get(VENV_VARIABLE) or CLONE / ".venv-pod-flow")
    if not (found / "pyvenv.cfg").exists():
        raise FileNotFoundError(
            f"The Python environment of flows in pods is not there ({found}): run `make setup-pod`."
        )
    return found
