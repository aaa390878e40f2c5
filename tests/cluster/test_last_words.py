"""Where a host cannot begin, its container's last words reach whoever runs the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cluster import Cluster
from driven import drive, prepared

from prefect_tpu.infra.errors import FailureKind
from prefect_tpu.infra.pods import PodSettings
from prefect_tpu.infra.request import Request

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(200)]


@pytest.mark.parametrize(
    ("python", "kind", "words"),
    [
        ("no-python", FailureKind.IMAGE, "no-python"),
        ("mkdir", FailureKind.HOST_LOST, "exit code 1: mkdir: cannot create directory"),  # whatever else an image has
    ],
)
def test_what_is_no_python_says_so(
    cluster: Cluster,
    namespace: str,
    fresh_pool: Callable[..., list[str]],
    machine: Any,
    monkeypatch: pytest.MonkeyPatch,
    python: str,
    kind: FailureKind,
    words: str,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    pool = cluster.kubelet.nodes.labels(fresh_pool("v6e-4")[0])["cloud.google.com/gke-nodepool"]
    machine.output.symlink_to(cluster.kubelet.bucket(namespace))
    pods = PodSettings(
        image="pod-python",
        python=python,
        namespace=namespace,
        cpu="100m",
        memory="500Mi",
        volumes={str(machine.output): f"gs://{namespace}"},
        node_selector={"cloud.google.com/gke-nodepool": pool},
    )
    settings = {"backend": "jobset", "pods": pods, "max_preemptions": 0}
    request = Request(
        name="words",
        program="true",
        accelerators=("v6e-4",),
        output=str(machine.output),
        settings=settings,
    )
    failure = drive(prepared(request)).failure
    assert failure is not None and failure.kind is kind, failure
    assert words in failure.message and failure.host == 0
