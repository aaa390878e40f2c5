"""What every backend promises, promised by JobSets of a real cluster: the suite of `tests/contract`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prefect_tpu.infra.backends.jobset import JobSetBackend
from prefect_tpu.infra.pods import PodSettings
from tests.contract.desk import Desk
from tests.contract.test_backend import *  # noqa: F403  # each of its tests, with the desk below

pytestmark = [pytest.mark.cluster, pytest.mark.anyio, pytest.mark.timeout(180)]

PATIENCE_SECONDS = 60.0
BUCKET = "shared"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def cpus(cluster: Any) -> Iterator[None]:
    names = cluster.add_cpus("contract", 2)
    yield
    cluster.delete_nodes(*names)


@pytest.fixture
def desk(cluster: Any, cpus: None, namespace: str, machine: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """The job's folder is one of a bucket that pods mount where this machine sees it too."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))
    folder = {str(machine.output): f"gs://{namespace}"}
    pods = PodSettings(image="pod-python", python="python", namespace=namespace, cpu="100m", volumes=folder)
    yield Desk(JobSetBackend, Path(machine.output, "job"), {"backend": "jobset", "pods": pods}, PATIENCE_SECONDS)
    assert machine.left() == [], "a test of the contract forgets what it began"
