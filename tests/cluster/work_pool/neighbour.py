"""Prefect's own worker for Kubernetes, with its observer, in the same cluster as ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster import CLONE, Cluster
from objects import pod
from prefect_server import Server, running, wait_for

VENV_VARIABLE = "PREFECT_TPU_NEIGHBOUR_VENV"
RUN_LABEL = "prefect.io/flow-run-id"  # by which it takes pods and Jobs for its own
POOL = "neighbour"


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One that runs."""

    cluster: Cluster
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    def start_failing_job(self, namespace: str, run: str) -> None:
        """As its own jobs are labelled."""
        labels = {RUN_LABEL: run, "prefect.io/flow-run-name": "theirs"}
        made = pod("theirs", "sh", "-c", "sleep 3; exit 1")
        spec = {"backoffLimit": 0, "template": {"metadata": {"labels": labels}, "spec": made["spec"]}}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "theirs", "labels": labels}, "spec": spec}
        self.cluster.api.post(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)


@contextmanager
def running_neighbour(cluster: Cluster, server: Server, folder: Path) -> Iterator[Neighbour]:
    """It watches all namespaces, as it does unless it is told otherwise."""
    prefect = find_venv() / "bin" / "prefect"
    command = [str(prefect), "worker", "start", "--type", "kubernetes", "--pool", POOL, "--name", POOL]
    environment = {**server.environment, "KUBECONFIG": str(cluster.kubeconfig)}
    with running(command, environment, folder, POOL) as process:
        found = Neighbour(cluster=cluster, log=folder / f"{POOL}.log")
        wait_for(lambda: "started" in found.said or process.poll() is not None, "the neighbour")
        assert process.poll() is None, found.said
        yield found


def find_venv() -> Path:
    found = Path(os.environ.get(VENV_VARIABLE) or CLONE / ".venv-neighbour")
    if not (found / "pyvenv.cfg").exists():
        raise FileNotFoundError(f"Prefect's Kubernetes worker is not there ({found}): run `make test-work-pool`.")
    return found
